"""Sharded apply: the same content as in one piece, and honest about what an earlier run left."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from sharded_samples import DIM, ROWS, SHARD, SHARDS, names, projector, rows_of, source, tree, vectors, write

import faceblind as fb
from faceblind._files import locked, sha256_file
from faceblind._local_engine import LocalEngine
from faceblind.data.tables import open_table
from faceblind.deploy import apply_sharded, apply_table
from faceblind.erase import Projector


@pytest.fixture(scope="module")
def table_path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "in.parquet")


@pytest.fixture(scope="module")
def expected(tmp_path_factory, table_path):
    """What an undisturbed run writes."""
    output = tmp_path_factory.mktemp("expected") / "clean"
    apply_sharded(projector(), source(table_path), output, shard_rows=SHARD)
    return tree(output)


@pytest.fixture
def mine(tmp_path, table_path):
    """A copy of the source that a test may change."""
    shutil.copy2(table_path, tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def stop_after(shards):
    def progress(done, _of):
        if done >= shards * SHARD:
            raise KeyboardInterrupt

    return progress


def interrupted(path, output, shards=2, **options):
    with pytest.raises(KeyboardInterrupt):
        apply_sharded(projector(), source(path), output, shard_rows=SHARD, progress=stop_after(shards), **options)
    assert not output.exists()


def test_shards_hold_what_one_piece_holds(tmp_path, table_path):
    seen = []
    report = apply_sharded(
        projector(), source(table_path), tmp_path / "clean", shard_rows=SHARD, progress=lambda *p: seen.append(p)
    )
    whole = apply_table(projector(), source(table_path), tmp_path / "clean.parquet")
    assert rows_of(tmp_path / "clean").equals(pq.read_table(tmp_path / "clean.parquet"))
    assert open_table(tmp_path / "clean").meta == open_table(tmp_path / "clean.parquet").meta
    assert names(tmp_path / "clean") == [
        "manifest.json",
        *(f"part-{i:05d}.parquet" for i in range(SHARDS)),
    ]
    assert names(tmp_path) == ["clean", "clean.parquet"]
    assert report.energy_kept == pytest.approx(whole.energy_kept, rel=1e-12)
    assert (report.rows, report.dim, report.emptied, report.emptied_examples) == (ROWS, DIM, 1, ("img/20000.jpg",))
    assert (whole.emptied, whole.emptied_examples) == (1, ("img/20000.jpg",))
    assert (report.resumed, report.notes) == (0, ())
    assert [done for done, _ in seen] == [0, *(min(SHARD * i, ROWS) for i in range(1, SHARDS + 1))]


@pytest.mark.parametrize("options", [{"workers": 2}, {"engine": LocalEngine(3)}])
def test_the_bytes_do_not_depend_on_who_works(tmp_path, table_path, expected, options):
    apply_sharded(projector(), source(table_path), tmp_path / "clean", shard_rows=SHARD, **options)
    assert tree(tmp_path / "clean") == expected


def test_the_bytes_do_not_depend_on_threads(tmp_path, table_path, expected, monkeypatch):
    monkeypatch.setattr("faceblind._local_engine.processors", lambda: 5)
    apply_sharded(projector(), source(table_path), tmp_path / "clean", shard_rows=SHARD)
    assert tree(tmp_path / "clean") == expected
    for threads in (1, 3):
        apply_table(projector(), source(table_path), tmp_path / f"{threads}.parquet", threads=threads)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "3.parquet").read_bytes()


def test_the_shards_do_not_depend_on_how_the_source_is_cut(tmp_path, table_path, expected):
    for number, (start, stop) in enumerate([(0, 10_001), (10_001, 50_000), (50_000, ROWS)]):
        made = pq.read_table(table_path).slice(start, stop - start)
        (tmp_path / "s").mkdir(exist_ok=True)
        pq.write_table(made, tmp_path / "s" / f"{number}.parquet", row_group_size=777)
    apply_sharded(projector(), source(tmp_path / "s"), tmp_path / "clean", shard_rows=SHARD)
    found = tree(tmp_path / "clean")
    assert {name: data for name, data in found.items() if name != "manifest.json"} == {
        name: data for name, data in expected.items() if name != "manifest.json"
    }


def test_the_manifest_says_what_is_there_and_where_it_is_from(tmp_path, mine):
    apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD, compact=True, dtype="float16")
    manifest = json.loads((tmp_path / "clean" / "manifest.json").read_text())
    assert manifest["rows"] == ROWS
    assert manifest["emptied"] == 1
    settings = manifest["settings"]
    assert settings["projector"] == projector().digest
    assert (settings["compact"], settings["dtype"], settings["renormalise"]) == (True, "float16", True)
    assert set(settings["versions"]) == {"faceblind", "numpy", "pyarrow"}
    assert '"encoder"' in settings["table"]["meta"]
    (file,) = manifest["source"]
    assert (file["name"], file["size"], file["mtime_ns"]) == (
        "in.parquet",
        mine.stat().st_size,
        mine.stat().st_mtime_ns,
    )
    for shard in manifest["shards"]:
        path = tmp_path / "clean" / shard["name"]
        assert (shard["sha256"], shard["size"]) == (sha256_file(path), path.stat().st_size)
    assert [shard["start"] for shard in manifest["shards"]] == [SHARD * i for i in range(SHARDS)]
    assert sum(shard["rows"] for shard in manifest["shards"]) == ROWS
    assert str(tmp_path) not in json.dumps(manifest)


def test_the_job_travels(tmp_path, table_path):
    from faceblind.deploy.shard_folder import FileState, ShardFolder
    from faceblind.deploy.sharded import ApplyJob, ShardTask, plan_for

    table = source(table_path)
    plan = plan_for(projector(), table, compact=False, renormalise=True, dtype=None, force=False, names={})
    (tmp_path / "clean").mkdir()
    job = ApplyJob(
        projector=projector(),
        table=table,
        folder=ShardFolder(tmp_path),
        plan=plan,
        states={table_path: FileState.of(table_path)},
    )
    twin = pickle.loads(pickle.dumps(job))
    twin.open()
    record = pickle.loads(pickle.dumps(twin.run(ShardTask(1, SHARD, 2 * SHARD))))
    first = (tmp_path / "clean" / "part-00001.parquet").read_bytes()
    assert job.run(ShardTask(1, SHARD, 2 * SHARD)) == record
    assert (tmp_path / "clean" / "part-00001.parquet").read_bytes() == first
    assert record.tally.rows == SHARD


# --- going on


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_goes_on_where_it_was_stopped(tmp_path, mine, workers):
    interrupted(mine, tmp_path / "clean", shards=2, workers=workers)
    partial = tmp_path / "clean.partial"
    done = {path.stem for path in partial.glob("[0-9]*.json")}
    assert len(done) >= 2
    before = {path.name: path.stat().st_ino for path in (partial / "clean").glob("*.parquet")}
    report = apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert report.resumed == len(done) * SHARD
    assert report.notes == (f"an interrupted run was continued; {report.resumed:,} rows were done",)
    for index in done:
        name = f"part-{index}.parquet"
        assert (tmp_path / "clean" / name).stat().st_ino == before[name]
    apply_sharded(projector(), source(mine), tmp_path / "again", shard_rows=SHARD)
    assert tree(tmp_path / "clean") == tree(tmp_path / "again")
    assert not partial.exists()


def test_a_finished_shard_that_was_altered_is_made_again(tmp_path, mine):
    interrupted(mine, tmp_path / "clean", shards=3)
    first = tmp_path / "clean.partial" / "clean" / "part-00001.parquet"
    data = bytearray(first.read_bytes())
    data[1000] ^= 1
    first.write_bytes(data)
    (tmp_path / "clean.partial" / "00000.json").write_text("{")
    report = apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert report.resumed == SHARD
    apply_sharded(projector(), source(mine), tmp_path / "again", shard_rows=SHARD)
    assert tree(tmp_path / "clean") == tree(tmp_path / "again")


def test_leftovers_of_a_killed_run_are_swept_away(tmp_path, mine):
    interrupted(mine, tmp_path / "clean")
    for folder in (tmp_path / "clean.partial", tmp_path / "clean.partial" / "clean"):
        (folder / ".part-00003.parquet.123.abcd.part").write_bytes(b"half")
    apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert all(name.startswith("part-") or name == "manifest.json" for name in tree(tmp_path / "clean"))
    assert names(tmp_path) == ["clean", "in.parquet"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compact": True}, r"other options \(compact False, now True\)"),
        ({"dtype": "float16"}, r"other options \(dtype float32, now float16\)"),
        ({"renormalise": False}, "other options"),
        ({"shard_rows": 2 * SHARD}, "shard_rows 16384, now 32768"),
        ({"names": {"embedding": "vector"}}, "a table with other columns"),
    ],
)
def test_with_other_options_the_earlier_shards_go_and_it_is_said(tmp_path, mine, options, reason):
    interrupted(mine, tmp_path / "clean")
    report = apply_sharded(projector(), source(mine), tmp_path / "clean", **({"shard_rows": SHARD} | options))
    assert report.resumed == 0
    assert len(report.notes) == 1
    assert "the shards of an interrupted run were thrown away: they were made" in report.notes[0]
    assert re.search(reason, report.notes[0])


def test_with_another_projector_the_earlier_shards_go(tmp_path, mine):
    interrupted(mine, tmp_path / "clean")
    other = Projector.of(projector().basis[:, :2], method="isp", choice=projector().choice, encoder=projector().encoder)
    report = apply_sharded(other, source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert report.notes == ("the shards of an interrupted run were thrown away: they were made with another projector",)


def test_with_other_versions_the_earlier_shards_go(tmp_path, mine, monkeypatch):
    interrupted(mine, tmp_path / "clean")
    monkeypatch.setattr("faceblind.deploy.sharded.version", lambda _name: "99")
    report = apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert "other versions of faceblind or its libraries" in report.notes[0]


# --- the source changes


def test_a_source_that_changes_during_the_run_is_named(tmp_path, mine):
    def touch(done, _of):
        if done == SHARD:
            os.utime(mine, ns=(1, 1))

    with pytest.raises(fb.DataError, match=r"in\.parquet changed while it was read: .*run again"):
        apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD, progress=touch)
    report = apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert report.resumed == 0
    assert "16,384 rows of an interrupted run were done again, as the files they come from changed" in report.notes[0]


def test_a_source_that_is_replaced_during_the_run_is_named(tmp_path, mine):
    def replace(done, _of):
        if done == SHARD:
            write(tmp_path / "other.parquet", 100).replace(mine)

    with pytest.raises(fb.DataError, match=r"in\.parquet changed while it was read"):
        apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD, progress=replace)


def test_a_source_that_goes_away_during_the_run_is_named(tmp_path, mine):
    with pytest.raises(fb.DataError, match=r"in\.parquet cannot be read any more: No such file"):
        apply_sharded(
            projector(), source(mine), tmp_path / "clean", shard_rows=SHARD, progress=lambda *_: mine.unlink(True)
        )


def test_only_shards_of_changed_files_are_made_again(tmp_path):
    folder = tmp_path / "s"
    for number in range(3):
        write(folder / f"{number}.parquet", SHARD, start=number * SHARD)
    interrupted(folder, tmp_path / "clean")
    write(folder / "1.parquet", SHARD, start=SHARD, values=-vectors(SHARD))
    report = apply_sharded(projector(), source(folder), tmp_path / "clean", shard_rows=SHARD)
    assert report.resumed == SHARD
    assert [note.split(" rows")[0] for note in report.notes] == ["an interrupted run was continued; 16,384", "16,384"]
    apply_sharded(projector(), source(folder), tmp_path / "again", shard_rows=SHARD)
    assert tree(tmp_path / "clean") == tree(tmp_path / "again")


def test_shards_beyond_a_table_that_shrank_are_removed(tmp_path):
    folder = tmp_path / "s"
    for number in range(4):
        write(folder / f"{number}.parquet", SHARD, start=number * SHARD)
    interrupted(folder, tmp_path / "clean", shards=3)
    (folder / "2.parquet").unlink()
    (folder / "3.parquet").unlink()
    report = apply_sharded(projector(), source(folder), tmp_path / "clean", shard_rows=SHARD)
    assert (report.rows, report.resumed) == (2 * SHARD, 2 * SHARD)
    assert names(tmp_path / "clean") == ["manifest.json", "part-00000.parquet", "part-00001.parquet"]


# --- what is there already


def test_a_complete_output_of_the_same_run_is_checked_and_kept(tmp_path, mine):
    first = apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    before = {path.name: path.stat().st_ino for path in (tmp_path / "clean").iterdir()}
    seen = []
    report = apply_sharded(
        projector(), source(mine), tmp_path / "clean", shard_rows=SHARD, progress=lambda *p: seen.append(p)
    )
    assert (report.rows, report.energy_kept, report.emptied_examples) == (
        first.rows, first.energy_kept, first.emptied_examples,
    )  # fmt: skip
    assert report.resumed == ROWS
    assert "was already complete" in report.notes[0]
    assert {path.name: path.stat().st_ino for path in (tmp_path / "clean").iterdir()} == before
    assert seen == [(ROWS, ROWS)]
    assert names(tmp_path) == ["clean", "in.parquet"]


@pytest.mark.parametrize("change", ["shard", "missing", "options", "source"])
def test_another_complete_output_is_replaced_when_the_new_one_is_there(tmp_path, mine, change, expected):
    output = tmp_path / "clean"
    apply_sharded(projector(), source(mine), output, shard_rows=SHARD, compact=change == "options")
    if change == "shard":
        (output / "part-00002.parquet").write_bytes(b"damaged")
    elif change == "missing":
        (output / "part-00004.parquet").unlink()
    elif change == "source":
        os.utime(mine, ns=(5, 5))
    before = tree(output)
    with pytest.raises(KeyboardInterrupt):
        apply_sharded(projector(), source(mine), output, shard_rows=SHARD, progress=stop_after(1))
    assert tree(output) == before
    apply_sharded(projector(), source(mine), output, shard_rows=SHARD)
    assert {n: d for n, d in tree(output).items() if n != "manifest.json"} == {
        n: d for n, d in expected.items() if n != "manifest.json"
    }
    assert names(tmp_path) == ["clean", "in.parquet"]


@pytest.mark.parametrize("there", ["other.txt", "part-00000.parquet", "manifest.json"])
def test_a_folder_with_other_things_is_not_replaced(tmp_path, mine, there):
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / there).write_text("{}")
    with pytest.raises(fb.OutputError, match=rf"the folder holds {there}, which would be deleted; name a new folder"):
        apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert tree(tmp_path / "clean") == {there: b"{}"}
    assert names(tmp_path) == ["clean", "in.parquet"]


def test_an_empty_folder_is_filled_and_a_file_is_not(tmp_path, mine):
    (tmp_path / "clean").mkdir()
    apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(fb.OutputError, match="it is a file already"):
        apply_sharded(projector(), source(mine), tmp_path / "file", shard_rows=SHARD)


def test_a_working_folder_of_somebody_else_is_left_alone(tmp_path, mine):
    (tmp_path / "clean.partial").mkdir()
    (tmp_path / "clean.partial" / "thesis.txt").write_text("mine")
    with pytest.raises(fb.OutputError, match="is needed as a working folder but holds something else"):
        apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert (tmp_path / "clean.partial" / "thesis.txt").read_text() == "mine"


def test_two_runs_on_one_output(tmp_path, mine):
    with (
        locked(tmp_path / "clean.partial", tmp_path / "clean"),
        pytest.raises(
            fb.OutputError, match=rf"another run is writing it \(process {os.getpid()}\); wait for it or end"
        ),
    ):
        apply_sharded(projector(), source(mine), tmp_path / "clean", shard_rows=SHARD)
    assert names(tmp_path) == ["in.parquet"]


# --- bad input


def test_a_bad_row_is_named_and_finished_shards_stay(tmp_path):
    values = vectors()
    values[3 * SHARD + 5, 2] = np.nan
    with pytest.raises(fb.DataError, match="holds NaN or infinity"):
        write(tmp_path / "refused.parquet", values=values)
    np.save(tmp_path / "in.npy", values)
    table = open_table(tmp_path / "in.npy", identity=None)
    with pytest.raises(fb.DataError, match=rf"row {3 * SHARD + 5} holds NaN"):
        apply_sharded(projector(), table, tmp_path / "clean", shard_rows=SHARD)
    assert len(list((tmp_path / "clean.partial").glob("0*.json"))) == 3


def test_a_run_that_finished_nothing_leaves_nothing(tmp_path):
    values = vectors(100)
    values[7] = np.inf
    np.save(tmp_path / "in.npy", values)
    with pytest.raises(fb.DataError, match="row 7 holds NaN"):
        apply_sharded(projector(), open_table(tmp_path / "in.npy", identity=None), tmp_path / "clean")
    assert names(tmp_path) == ["in.npy"]


@pytest.mark.parametrize("rows", [0, -SHARD, 1000, SHARD + 1])
def test_rows_per_shard_are_whole_row_groups(tmp_path, table_path, rows):
    with pytest.raises(fb.UsageError, match=r"rows per shard must be a multiple of 4,096 \(a row group\), got"):
        apply_sharded(projector(), source(table_path), tmp_path / "clean", shard_rows=rows)


def test_a_projector_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, table_path):
    wide = Projector.of(np.eye(9)[:, :2], method="isp", choice=projector().choice)
    with pytest.raises(fb.ProjectorError, match="9 features"):
        apply_sharded(wide, source(table_path), tmp_path / "clean")
    apply_sharded(projector(), source(table_path), tmp_path / "clean")
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        apply_sharded(projector(), source(tmp_path / "clean"), tmp_path / "twice")
    assert names(tmp_path) == ["clean"]
    assert open_table(tmp_path / "clean").rows == ROWS
