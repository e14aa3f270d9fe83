"""Shards embedded by an engine: the same bytes, refusals of machines that do not fit, one run at a time."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")
from colour_encoder import ColourEncoder, people

from faceblind._errors import DataError, EncoderError, OutputError
from faceblind._files import locked
from faceblind._local_engine import LocalEngine
from faceblind.data.tables import read_table
from faceblind.encoders import embed, embed_folder, embed_job
from faceblind.encoders.embed_job import EmbedJob
from faceblind.encoders.shards import WorkFolder


class Backwards:
    """Does tasks in this process, the last one first, each on what pickle makes of job and task."""

    def map(self, job: Any, tasks: Any) -> Any:
        job = pickle.loads(pickle.dumps(job))
        job.open()
        for task in reversed(tasks):
            yield pickle.loads(pickle.dumps(job.run(pickle.loads(pickle.dumps(task)))))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty photographs and one that cannot be used, in shards of four."""
    monkeypatch.setattr(embed, "_SHARD_ROWS", 4)
    folder = people(tmp_path / "photos")
    (folder / "p1" / "x.jpg").write_text("sorry")
    return folder


def test_the_order_of_shards_does_not_show(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_folder(root, ColourEncoder(), tmp_path / "here.parquet", batch_size=3)
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[int, int]] = []
    result = embed_folder(
        "photos", ColourEncoder(), "there.parquet", engine=Backwards(), progress=lambda *call: calls.append(call)
    )
    assert Path("there.parquet").read_bytes() == Path("here.parquet").read_bytes()
    assert Path("there.parquet.skipped.csv").read_bytes() == Path("here.parquet.skipped.csv").read_bytes()
    assert not Path("there.parquet.partial").exists()
    assert [skip.sample for skip in result.skipped] == ["p1/x.jpg"]
    assert calls == [(0, 21), (1, 21), (5, 21), (9, 21), (13, 21), (17, 21), (21, 21)]


def test_processes_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    embed_folder(root, ColourEncoder(), tmp_path / "here.parquet")
    embed_folder(root, ColourEncoder(), tmp_path / "there.parquet", engine=LocalEngine(2))
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def job(root: Path, work: Path, **changes: Any) -> EmbedJob:
    encoder = ColourEncoder()
    options = {"encoder": encoder, "fingerprint": encoder.fingerprint, "root": root, "work": work}
    return EmbedJob(**(options | {"batch_size": 4, "workers": 1} | changes))


def test_a_machine_with_another_encoder_or_without_the_folders_is_refused(root: Path, tmp_path: Path) -> None:
    work, _ = WorkFolder.open(tmp_path / "work", ColourEncoder().fingerprint, shard_rows=4, resume=True)
    job(root, work.path).open()
    with pytest.raises(EncoderError, match=r"the encoder 'colour' on .* \(weights_sha256: 1{12}.*give every machine"):
        job(root, work.path, encoder=ColourEncoder(weights="1" * 64)).open()
    old = ColourEncoder()
    object.__setattr__(old.fingerprint, "libraries", {"numpy": "1.0"})
    with pytest.raises(EncoderError, match=r"libraries: {'numpy': '1\.0'} != "):
        job(root, work.path, encoder=old).open()
    with pytest.raises(DataError, match=r"sees no folder .*elsewhere: put the photographs where all machines see them"):
        job(tmp_path / "elsewhere", work.path).open()
    for place in (tmp_path / "nowhere", root):
        with pytest.raises(OutputError, match=r"does not see the working folder .*: write the table to a file system"):
            job(root, place).open()


def test_shards_that_do_not_arrive_are_waited_for_and_then_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Backwards):
        """Its workers write to a folder of the same name on another disk."""

        def map(self, job: Any, tasks: Any) -> Any:
            for record in super().map(job, tasks):
                for entry in job.work.glob("0000*"):
                    entry.unlink()
                yield record

    slept: list[float] = []
    monkeypatch.setattr(embed_job.time, "sleep", slept.append)
    with pytest.raises(OutputError, match=r"a worker wrote shard 0 into .*, but it is not to be seen here"):
        embed_folder(root, ColourEncoder(), tmp_path / "out.parquet", engine=Elsewhere())
    assert sum(slept) == 90


def test_two_runs_on_one_output_are_refused(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with locked(tmp_path / "out.parquet.partial", output):
        with pytest.raises(OutputError, match=r"cannot write .*out\.parquet: another run is writing it"):
            embed_folder(root, ColourEncoder(), output)
        assert not output.exists()
    assert embed_folder(root, ColourEncoder(), output).embedded == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "out.parquet.skipped.csv", "photos"]


class Fused(ColourEncoder):
    """An encoder with a projector behind it, which leaves two of three dimensions."""

    def __init__(self, projector: str, **options: Any) -> None:
        super().__init__(**options)
        self._projector = projector

    @property
    def projector(self) -> str | None:
        return self._projector

    @property
    def dim(self) -> int:
        return 2

    def run(self, prepared: Any) -> Any:
        return super().run(prepared)[:, :2]


@pytest.mark.parametrize("engine", [None, Backwards()])
def test_a_projector_behind_the_encoder_reaches_the_table(root: Path, tmp_path: Path, engine: Any) -> None:
    embed_folder(root, Fused("ab" * 32), tmp_path / "out.parquet", engine=engine)
    table = read_table(tmp_path / "out.parquet")
    assert table.meta.projector == "ab" * 32
    assert table.encoder == ColourEncoder().fingerprint
    assert table.vectors.shape == (20, 2)


def test_vectors_behind_another_projector_are_not_taken_up(root: Path, tmp_path: Path) -> None:
    def stop(done: int, _of: int) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    output = tmp_path / "out.parquet"
    with pytest.raises(KeyboardInterrupt):
        embed_folder(root, Fused("ab" * 32), output, progress=stop)
    result = embed_folder(root, Fused("cd" * 32), output)
    assert result.resumed == 0
    assert result.notes[-1].message.endswith("the projector behind the encoder changed")
