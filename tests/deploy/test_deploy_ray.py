"""Embed, fit and apply on a Ray cluster of two nodes give the bytes of a local run, whatever happens to workers."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from docs_blocks import block
from ray_jobs import Echo, Meter

import faceblind as fb
from faceblind import _errors
from faceblind._errors import EncoderError, FaceblindError, MissingExtraError, OutputError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, read_table, write_table
from faceblind.deploy import apply_sharded, fit, fit_table
from faceblind.deploy.ray_engine import RayEngine, _check_answers, _rebuilt
from faceblind.encoders import embed, embed_folder
from strategies import fingerprint, planted

pytest.importorskip("ray")
pytest.importorskip("pandas", reason="Ray Data needs pandas")
pytest.importorskip("pyarrow")

pytestmark = [
    # Ray leaves sockets and log files of the processes it started to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # Ray Data copies its own settings, deprecated ones included.
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning:ray.data.context"),
    pytest.mark.filterwarnings("ignore:.* is deprecated:UserWarning:ray.data.context"),
]
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayEngine]:
    """Two nodes of one processor each, connected to; no dashboard, no usage statistics."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, sys.path)]))
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            patch.setenv(name, "2")  # what workers must not follow
        import ray
        from ray.cluster_utils import Cluster

        small = {"num_cpus": 1, "object_store_memory": 80 << 20}
        nodes = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        nodes.add_node(**small)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield RayEngine(workers=2)
        finally:
            ray.shutdown()
            nodes.shutdown()


def test_every_task_is_done_in_a_worker_with_one_thread(cluster: RayEngine) -> None:
    import ray

    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars, logging.getLogger("ray.data").level
    records = list(cluster.map(Echo(), range(6)))
    assert sorted(record["task"] for record in records) == list(range(6))
    assert os.getpid() not in {record["pid"] for record in records}
    assert {record["folder"] for record in records} == {str(Path.cwd())}
    assert {count for record in records for count in record["threads"]} == {1}
    assert ray.is_initialized()
    assert (context.enable_progress_bars, logging.getLogger("ray.data").level) == before
    assert list(cluster.map(Echo("open"), [])) == []


def test_errors_of_the_job_arrive_as_they_were_raised(cluster: RayEngine) -> None:
    with pytest.raises(FaceblindError) as caught:
        list(replace(cluster, workers=1).map(Echo("error"), range(6)))
    assert type(caught.value) is OutputError
    assert str(caught.value) == "cannot write /somewhere: disk full"


def test_a_bug_in_a_job_shows_its_traceback(cluster: RayEngine) -> None:
    import ray

    with pytest.raises(ray.exceptions.RayTaskError, match="ZeroDivisionError: a bug"):
        list(replace(cluster, workers=1).map(Echo("bug"), range(6)))


def test_the_task_of_a_worker_that_was_killed_is_done_again(cluster: RayEngine, tmp_path: Path) -> None:
    records = list(cluster.map(Echo("once", str(tmp_path / "mark")), range(6)))
    assert (tmp_path / "mark").exists()
    assert sorted(record["task"] for record in records) == list(range(6))


def test_a_task_that_kills_every_worker_is_given_up(cluster: RayEngine) -> None:
    with pytest.raises(FaceblindError, match=r"died again and again on one task .*fewer workers"):
        list(replace(cluster, workers=1, attempts=2).map(Echo("deadly"), range(4)))


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty photographs of four people and one file that is none, in shards of four."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(embed, "_SHARD_ROWS", 4)
    for p in range(4):
        folder = tmp_path / "photos" / f"p{p}"
        folder.mkdir(parents=True)
        for i in range(5):
            image.new("RGB", (6, 4), (10 + 20 * p, 1 + i, 100)).save(folder / f"{i}.png")
    (tmp_path / "photos" / "p1" / "x.jpg").write_text("sorry")
    return tmp_path / "photos"


def stop_at(photographs: int) -> Callable[[int, int], None]:
    def progress(done: int, _of: int) -> None:
        if done >= photographs:
            raise KeyboardInterrupt

    return progress


def test_a_run_that_stopped_here_goes_on_there_to_the_same_bytes(
    cluster: RayEngine, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    embed_folder(photos, Meter(), "local.parquet", batch_size=3)
    with pytest.raises(KeyboardInterrupt):
        embed_folder("photos", Meter(), "ray.parquet", progress=stop_at(9), batch_size=3)
    calls: list[tuple[int, int]] = []
    result = embed_folder(
        "photos", Meter(), "ray.parquet", engine=cluster, progress=lambda done, of: calls.append((done, of))
    )
    assert Path("ray.parquet").read_bytes() == Path("local.parquet").read_bytes()
    assert Path("ray.parquet.skipped.csv").read_bytes() == Path("local.parquet.skipped.csv").read_bytes()
    assert not Path("ray.parquet.partial").exists()
    assert (result.embedded, result.resumed, len(result.skipped)) == (20, 8, 1)
    assert (calls[0], calls[-1], len(calls)) == ((8, 21), (21, 21), 5)


def test_a_run_that_stopped_there_goes_on_here(cluster: RayEngine, photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with pytest.raises(KeyboardInterrupt):
        embed_folder(photos, Meter(), output, engine=replace(cluster, workers=1), progress=stop_at(8))
    result = embed_folder(photos, Meter(), output)
    assert result.resumed >= 8
    embed_folder(photos, Meter(), tmp_path / "whole.parquet")
    assert output.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_another_encoder_on_a_node_is_refused(cluster: RayEngine, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"the encoder 'meter' on .* is not the one .*weights_sha256: 1{12}"):
        embed_folder(photos, Meter(os.getpid()), tmp_path / "out.parquet", engine=replace(cluster, workers=1))


def test_fit_and_apply_give_the_bits_of_a_local_run(
    cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "_SHARD_ROWS", 23)
    made = planted(1, people=20, images=5)
    people = fb.EmbeddingSet.of(made.vectors, made.identity, meta=TableMeta(encoder=fingerprint(dim=32)))
    write_table(tmp_path / "people.parquet", people)
    table = open_table(tmp_path / "people.parquet")
    here = fit_table(table, rank=5)
    there = fit_table(table, rank=5, engine=cluster)
    assert there.projector.digest == here.projector.digest
    assert np.array_equal(there.projector.basis, here.projector.basis)
    assert there.note == here.note
    for place, engine in (("here", None), ("there", cluster)):
        apply_sharded(here.projector, table, tmp_path / place, engine=engine)
    one, other = ({p.name: p.read_bytes() for p in (tmp_path / place).iterdir()} for place in ("here", "there"))
    assert one == other


def test_the_block_of_the_documentation_runs(cluster: RayEngine) -> None:
    exec(compile(block("From Python"), "docs/distributed.md", "exec"), {})


def test_the_ray_data_recipe_gives_what_the_projector_gives(
    cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planted(1, people=20, images=5)
    projector = fb.ISP(4).fit(made.vectors, made.identity).projector_
    monkeypatch.chdir(tmp_path)
    write_table("people.parquet", fb.EmbeddingSet.of(made.vectors, made.identity))
    projector.save("isp.safetensors")
    code = block("Ray Data").replace("people.parquet", f"{tmp_path}/people.parquet")  # nodes have folders of their own
    exec(compile(code.replace("clean.parquet", f"{tmp_path}/clean"), "docs/distributed.md", "exec"), {})
    clean = read_table(tmp_path / "clean")
    order = np.argsort(clean.sample.astype(int))
    np.testing.assert_allclose(clean.vectors[order], projector.apply(made.vectors).vectors, atol=1e-6)
    np.testing.assert_array_equal(clean.require_identity()[order], made.identity)


SCRIPT = """
import ray
from faceblind._errors import UsageError
from faceblind.deploy.ray_engine import RayEngine, _check_answers, _rebuilt
from docs_blocks import block
from ray_jobs import Echo

assert sorted(record["task"] for record in RayEngine(workers=1).map(Echo(), range(3))) == [0, 1, 2]
assert not ray.is_initialized()
"""


def test_a_ray_of_our_own_is_started_and_ended_without_a_word() -> None:
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "default"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_an_address_where_nobody_answers_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UsageError, match=rf"no Ray cluster at '127.0.0.1:{port}': .*refused; give the address that"):
        _check_answers(f"127.0.0.1:{port}")
    for fine in (None, "auto", "local"):
        _check_answers(fine)


@pytest.mark.parametrize("option", ["workers", "threads", "attempts"])
def test_numbers_below_one_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} must be at least 1, got 0"):
        RayEngine(**{option: 0})


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"running on Ray needs ray\[data\]; .*'faceblind\[ray\]'"):
        list(RayEngine().map(Echo(), [1]))


ERRORS = [kind for kind in vars(_errors).values() if isinstance(kind, type) and issubclass(kind, FaceblindError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_can_be_made_again_from_its_name_and_text(kind: type[FaceblindError]) -> None:
    error = _rebuilt(kind.__name__, "a text")
    assert type(error) is kind
    assert str(error) == "a text"
