"""The command line as a user runs it: exit codes, messages, files, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import faceblind as fb
from faceblind.audit.result import audit_schema
from faceblind.cli import main
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, read_table, write_table
from strategies import fingerprint, planted

QUICK = ["--ks", "1", "--attacker-seeds", "1", "--draws", "100", "--fars", "1e-1,1e-2", "--attackers", "cosine,ridge"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    leaky = planted(3, people=60, images=6, rank=6, strength=0.5, noise=0.2)
    people = fb.EmbeddingSet.of(leaky.vectors, leaky.identity, meta=TableMeta(encoder=fingerprint(dim=32)))
    write_table(folder / "leaky.parquet", people)
    rng = np.random.default_rng(0)
    clean = fb.EmbeddingSet.of(rng.standard_normal((800, 24)), np.repeat(np.arange(200), 4))
    write_table(folder / "clean.parquet", clean)
    return folder


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_audit_writes_the_record_the_report_and_the_manifest(made, tmp_path, capsys):
    code, out, err = run(
        capsys, "audit", made / "leaky.parquet", "--identity", "identity", "-o", tmp_path / "a", *QUICK
    )
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "a" / "audit.json").read_text())
    jsonschema.validate(record, audit_schema())
    assert record["provenance"]["table"]["name"] == "leaky.parquet"
    assert (tmp_path / "a" / "report.html").read_text().lstrip().lower().startswith("<!doctype html>")
    lines = (tmp_path / "a" / "split.csv").read_text().splitlines()
    assert lines[0] == "sample,identity,split"
    assert len(lines) == 361
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"fit", "attack", "validation", "test"}
    assert out.lower().index("findings") < out.index("TAR of the worst attacker")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["audit.json", "report.html", "split.csv"]


def test_the_whole_way_fit_apply_audit_again(made, tmp_path, capsys):
    table = made / "leaky.parquet"
    assert run(capsys, "audit", table, "-o", tmp_path / "before", *QUICK)[0] == 0
    split = tmp_path / "before" / "split.csv"
    projector, clean = tmp_path / "isp.safetensors", tmp_path / "clean.parquet"
    code, out, _ = run(capsys, "fit", table, "--rank", 6, "--split", split, "-o", projector)
    assert code == 0
    assert "rank 6" in out
    code, out, _ = run(capsys, "apply", projector, table, "-o", clean, "--compact")
    assert code == 0
    assert "32 -> 26 columns" in out
    assert open_table(clean).dim == 26
    code, out, _ = run(
        capsys, "audit", table, "--projector", projector, "--split", split, "-o", tmp_path / "after", *QUICK
    )
    assert code == 0
    assert "projector_fitted_on_fit_people" in out
    assert run(capsys, "audit", clean, "--split", split, "--rank", 2, "-o", tmp_path / "cleaned", *QUICK)[0] == 0
    worst = {}
    for name, release in (("before", "raw"), ("after", "isp"), ("cleaned", "raw")):
        record = json.loads((tmp_path / name / "audit.json").read_text())
        worst[name] = max(s["tar"] for s in record["summary"] if s["release"] == release and s["far_target"] == 0.01)
    assert worst["before"] > 3 * worst["after"]
    assert worst["cleaned"] == pytest.approx(worst["after"], abs=0.02)  # the file is what the projector promised


@pytest.mark.parametrize(("gate", "code"), [("TAR@FAR(1e-1) > 5%", 1), ("TAR@FAR(1e-2) > 99.9%", 0), ("EER < 49%", 1)])
def test_gate_on_a_leaky_table(made, tmp_path, capsys, gate, code):
    got, out, _ = run(capsys, "audit", made / "leaky.parquet", "-o", tmp_path, "--fail-if", gate, *QUICK)
    assert got == code
    assert ("FAILED" in out) is bool(code)
    assert json.loads((tmp_path / "audit.json").read_text())["gate"]["failed"] is bool(code)


def test_gate_on_a_table_without_identity(made, tmp_path, capsys):
    code, out, _ = run(
        capsys, "audit", made / "clean.parquet", "-o", tmp_path, "--fail-if", "TAR@FAR(1e-2) > 15%", *QUICK
    )
    assert code == 0
    assert "passed" in out


def test_strict_stops_on_findings_before_any_number(made, tmp_path, capsys):
    people = read_table(made / "leaky.parquet")
    vectors = people.vectors.copy()
    first, second = (np.flatnonzero(people.identity == name)[0] for name in np.unique(people.identity)[:2])
    vectors[second] = vectors[first]
    write_table(tmp_path / "dup.parquet", fb.EmbeddingSet.of(vectors, people.identity))
    code, out, err = run(capsys, "audit", tmp_path / "dup.parquet", "-o", tmp_path / "a", "--strict", *QUICK)
    assert code == 1
    assert "duplicate_across_identities" in out
    assert "TAR" not in out
    assert err.startswith("faceblind: error: ")
    assert list((tmp_path / "a").iterdir()) == []


def test_target_picks_a_rank_or_shows_the_curve(made, tmp_path, capsys):
    projector = tmp_path / "isp.safetensors"
    shares = ("--shares", "0.3,0.2,0.3,0.2", "--attackers", "cosine,ridge")
    code, out, _ = run(
        capsys, "fit", made / "leaky.parquet", "--target", "TAR@FAR(1e-1)<=60%", "-o", projector, *shares
    )
    assert code == 0
    assert "Validation curve" in out
    assert fb.Projector.load(projector).choice.rule == "target"
    code, _, err = run(
        capsys, "fit", made / "leaky.parquet", "--target", "TAR@FAR(1e-1)<=0.1%", "-o", tmp_path / "no", *shares
    )
    assert code == 2
    assert "no rank up to" in err
    assert "95 % interval" in err
    assert not (tmp_path / "no").exists()


def bad_tables(folder):
    rng = np.random.default_rng(0)
    good, names = rng.standard_normal((40, 8)), np.repeat([f"p{i}" for i in range(10)], 4)

    def npz(name, vectors, identity=names):
        np.savez(folder / name, embedding=vectors, identity=identity)
        return folder / name

    broken = good.copy()
    broken[17, 3] = np.nan
    zero = good.copy()
    zero[5] = 0
    (folder / "text.parquet").write_text("identity,embedding\n")
    write_table(folder / "whole.parquet", fb.EmbeddingSet.of(good, names))
    data = (folder / "whole.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    return {
        "NaN row": (npz("nan.npz", broken), "17"),
        "zero row": (npz("zero.npz", zero), "5"),
        "one identity": (npz("one.npz", good, np.full(40, "p")), "at least 8 identities"),
        "few identities": (npz("few.npz", good, np.repeat(list("abcd"), 10)), "at least 8 identities"),
        "empty": (npz("empty.npz", good[:0], names[:0]), "empty"),
        "text": (folder / "text.parquet", "text.parquet"),
        "cut": (folder / "cut.parquet", "cut.parquet"),
        "missing": (folder / "missing.parquet", "missing.parquet"),
        "suffix": (folder / "table.xlsx", "table.xlsx"),
    }


@pytest.mark.parametrize(
    "case", ["NaN row", "zero row", "one identity", "few identities", "empty", "text", "cut", "missing", "suffix"]
)
def test_bad_tables_exit_2_with_one_line_and_leave_nothing(case, tmp_path, capsys):
    table, says = bad_tables(tmp_path)[case]
    code, _, err = run(capsys, "audit", table, "-o", tmp_path / "a", *QUICK)
    assert code == 2
    assert err.startswith("faceblind: error: ")
    assert err.count("\n") == 1
    assert says in err
    assert not (tmp_path / "a").exists() or list((tmp_path / "a").iterdir()) == []


def test_ragged_rows_are_named(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [[1.0, 2.0]] * 7 + [[1.0]]
    pq.write_table(pa.table({"identity": list("aabbccdd"), "embedding": rows}), tmp_path / "t.parquet")
    code, _, err = run(capsys, "audit", tmp_path / "t.parquet", "-o", tmp_path / "a")
    assert code == 2
    assert "row 7" in err


def test_dropping_bad_rows_is_a_choice_and_is_recorded(tmp_path, capsys, made):
    people = read_table(made / "leaky.parquet")
    vectors = people.vectors.copy()
    vectors[3] = np.inf
    np.savez(tmp_path / "t.npz", embedding=vectors, identity=people.identity)
    code, out, _ = run(capsys, "audit", tmp_path / "t.npz", "-o", tmp_path / "a", "--drop-bad-rows", *QUICK)
    assert code == 0
    assert "non_finite_rows" in out
    record = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert record["hygiene"][0]["kind"] == "non_finite_rows"
    assert record["provenance"]["table"]["rows"] == len(people) - 1


def test_a_missing_identity_column_lists_what_there_is(made, tmp_path, capsys):
    code, _, err = run(capsys, "audit", made / "leaky.parquet", "--identity", "identty", "-o", tmp_path)
    assert code == 2
    assert "identity" in err.replace("identty", "")
    assert "sample" in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["audit", "{leaky}", "-o", "{out}", "--fail-if", "TAR > 5%"], "TAR@FAR(1e-4)"),
        (["audit", "{leaky}", "-o", "{out}", "--fars", "0"], "between 0 and 1"),
        (["audit", "{leaky}", "-o", "{out}", "--shares", "1,2"], "four numbers"),
        (["audit", "{leaky}", "-o", "{out}", "--rank", "31"], "at most rank"),
        (["audit", "{leaky}", "-o", "{out}", "--split", "{out}/no.csv"], "no.csv"),
        (["audit", "{leaky}", "-o", "{out}", "--projector", "{leaky}"], "safetensors"),
        (["fit", "{leaky}", "-o", "{out}/p", "--rank", "500"], "at most rank"),
        (["fit", "{leaky}", "-o", "{out}/p", "--rank", "0"], "rank"),
        (["fit", "{leaky}", "-o", "{out}/p", "--rank", "3", "--target", "TAR@FAR(1e-1)<=5%"], "not both"),
        (["apply", "{out}/none", "{leaky}", "-o", "{out}/c.parquet"], "no projector file"),
        (["embed", "{out}/nowhere", "-o", "{out}/e.parquet"], "nowhere"),
        (["embed", "{out}", "-o", "{out}/e.parquet", "--encoder", "clip"], "clip"),
        (["audit", "{leaky}"], "output"),
        (["frobnicate"], "frobnicate"),
        (["audit", "{leaky}", "-o", "{out}", "--rank", "many"], "many"),
    ],
)
def test_usage_errors_exit_2_and_say_what_is_wrong(made, tmp_path, capsys, argv, says):
    argv = [a.format(leaky=made / "leaky.parquet", out=tmp_path) for a in argv]
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert says.lower() in (out + err).lower()
    assert list(tmp_path.iterdir()) == []


def test_tampered_and_truncated_projectors_are_refused(made, tmp_path, capsys):
    projector = tmp_path / "isp.safetensors"
    assert run(capsys, "fit", made / "leaky.parquet", "--rank", 3, "-o", projector)[0] == 0
    whole = projector.read_bytes()
    for name, data in (("cut", whole[:-100]), ("flipped", whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])):
        (tmp_path / name).write_bytes(data)
        code, _, err = run(capsys, "apply", tmp_path / name, made / "leaky.parquet", "-o", tmp_path / "c.parquet")
        assert code == 2
        assert "truncated" in err or "altered" in err
    assert not (tmp_path / "c.parquet").exists()


def test_places_that_cannot_be_written_are_named(made, tmp_path, capsys):
    (tmp_path / "file").write_text("here first")
    for argv in (
        ["audit", made / "leaky.parquet", "-o", tmp_path / "file" / "a", *QUICK],
        ["fit", made / "leaky.parquet", "--rank", 3, "-o", tmp_path / "file" / "isp"],
    ):
        code, _, err = run(capsys, *argv)
        assert code == 2
        assert "file" in err
    assert (tmp_path / "file").read_text() == "here first"


def test_a_full_disk_is_said_and_leaves_nothing(made, tmp_path, capsys, monkeypatch):
    import errno

    def full(self, _text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, err = run(capsys, "fit", made / "leaky.parquet", "--rank", 3, "-o", tmp_path / "isp")
    assert code == 2
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_middle_exits_2_and_leaves_nothing(made, tmp_path):
    out = tmp_path / "a"
    argv = [
        sys.executable,
        "-m",
        "faceblind",
        "audit",
        str(made / "leaky.parquet"),
        "-o",
        str(out),
        "--draws",
        "200000",
    ]
    # A shell without job control starts background work with Ctrl-C ignored, and that is inherited: set it back.
    listening = "import signal, sys, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    argv[1:3] = ["-c", listening + "runpy.run_module('faceblind', run_name='__main__', alter_sys=True)"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while process.poll() is None and not out.exists():  # the folder is made when the work begins
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 2
    assert "interrupted" in err
    assert list(out.iterdir()) == []


def test_help_and_version(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    verbs = "embed hygiene audit fit apply certify verify angles reproduce demo encoders"
    for verb in verbs.split():
        assert verb in out
    code, out, _ = run(capsys, "audit", "--help")
    assert code == 0
    assert "Exit codes" in out
    assert run(capsys, "--version")[0] == 0


def test_encoders_are_listed_with_their_licences(capsys):
    code, out, _ = run(capsys, "encoders")
    assert code == 0
    assert "sscd-distilled" in out
    assert "licence" in out


@pytest.mark.parametrize(
    ("source", "target"), [(".parquet", ".npz"), (".npz", ".npz"), (".npz", ".parquet"), (".parquet", "")]
)
def test_apply_between_formats_keeps_identities_and_keys(made, tmp_path, capsys, source, target):
    people = read_table(made / "leaky.parquet")
    write_table(tmp_path / f"in{source}", people)
    projector, output = tmp_path / "isp.safetensors", tmp_path / f"out{target}"
    assert run(capsys, "fit", tmp_path / f"in{source}", "--rank", 3, "-o", projector)[0] == 0
    code, _, err = run(capsys, "apply", projector, tmp_path / f"in{source}", "-o", output)
    assert (code, err) == (0, "")
    clean = read_table(output)
    assert clean.identity.tolist() == people.identity.tolist()
    assert clean.sample.tolist() == people.sample.tolist()


def test_apply_to_a_table_without_identities(made, tmp_path, capsys):
    people = read_table(made / "leaky.parquet")
    np.save(tmp_path / "in.npy", people.vectors)
    projector = tmp_path / "isp.safetensors"
    assert run(capsys, "fit", made / "leaky.parquet", "--rank", 3, "-o", projector)[0] == 0
    code, _, err = run(capsys, "apply", projector, tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--compact")
    assert code == 0
    assert "which encoder" in err  # the plain file does not say
    assert np.load(tmp_path / "out.npy").shape == (len(people), 29)
