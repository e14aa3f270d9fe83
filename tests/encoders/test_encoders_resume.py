"""Runs that were stopped: killed, interrupted or failed, and continued to the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")
from colour_encoder import ColourEncoder, people
from PIL import Image

from faceblind.encoders import embed, embed_folder

SHARD = 4
PARTIAL = "out.parquet.partial"

SCRIPT = f"""
import os, signal, sys
from colour_encoder import ColourEncoder
from faceblind.encoders import embed, embed_folder

root, output, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
embed._SHARD_ROWS = {SHARD}

def progress(done, total):
    if done >= after:
        os.kill(os.getpid(), signal.SIGKILL)

embed_folder(root, ColourEncoder(), output, batch_size=3, progress=progress)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty photographs and two that cannot be used, in shards of four."""
    monkeypatch.setattr(embed, "_SHARD_ROWS", SHARD)
    folder = people(tmp_path / "photos")
    (folder / "p1" / "x.jpg").write_text("sorry")
    Image.new("RGB", (3, 3)).save(folder / "p3" / "black.png")
    return folder


@pytest.fixture
def whole(root: Path, tmp_path: Path) -> bytes:
    """Return the bytes of an uninterrupted run."""
    embed_folder(root, ColourEncoder(), tmp_path / "whole.parquet", batch_size=3)
    return (tmp_path / "whole.parquet").read_bytes()


class _StopError(Exception):
    pass


def stop_after(photos: int, error: type[BaseException]) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= photos:
            raise error

    return progress


def interrupt(root: Path, tmp_path: Path, *, after: int = 13) -> None:
    """Stop a run when `after` of the 22 photographs are through; whole shards of four stay."""
    with pytest.raises(KeyboardInterrupt):
        embed_folder(
            root,
            ColourEncoder(),
            tmp_path / "out.parquet",
            batch_size=3,
            progress=stop_after(after, KeyboardInterrupt),
        )
    assert not (tmp_path / "out.parquet").exists()


class Counting(ColourEncoder):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen = 0

    def run(self, prepared: Any) -> Any:
        self.seen += len(prepared)
        return super().run(prepared)


def finish(root: Path, tmp_path: Path, encoder: ColourEncoder | None = None, **options: Any) -> Any:
    result = embed_folder(root, encoder or ColourEncoder(), tmp_path / "out.parquet", batch_size=3, **options)
    assert not (tmp_path / PARTIAL).exists()
    return result


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize(("after", "resumed"), [(2, 0), (11, 8), (22, 20)])
def test_a_killed_run_continues_to_the_same_bytes(
    root: Path, whole: bytes, tmp_path: Path, after: int, resumed: int
) -> None:
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path]
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root), str(tmp_path / "out.parquet"), str(after)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "out.parquet").exists()
    assert (tmp_path / PARTIAL).is_dir()
    result = finish(root, tmp_path)
    assert result.resumed == resumed
    assert [skip.sample for skip in result.skipped] == ["p1/x.jpg", "p3/black.png"]
    assert (tmp_path / "out.parquet").read_bytes() == whole
    assert (tmp_path / "out.parquet.skipped.csv").read_bytes() == (tmp_path / "whole.parquet.skipped.csv").read_bytes()


def test_ctrl_c_keeps_finished_shards(root: Path, whole: bytes, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    encoder = Counting()
    calls: list[tuple[int, int]] = []
    result = finish(root, tmp_path, encoder, progress=lambda *call: calls.append(call))
    assert result.resumed == 12
    assert calls[0] == (12, 22)
    assert calls[-1] == (22, 22)
    assert encoder.seen == 10
    assert [note.kind for note in result.notes] == ["resumed"]
    assert "dealt with 12 photographs" in result.notes[0].message
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_an_encoder_that_fails_leaves_what_was_done(root: Path, whole: bytes, tmp_path: Path) -> None:
    with pytest.raises(_StopError):
        embed_folder(
            root,
            ColourEncoder(),
            tmp_path / "out.parquet",
            batch_size=3,
            progress=stop_after(9, _StopError),
        )
    assert finish(root, tmp_path).resumed == 8
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_a_run_stopped_while_writing_the_table_embeds_nothing_again(
    root: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(embed._Table, "write", lambda *_: stop_after(0, KeyboardInterrupt)(0, 0))
        with pytest.raises(KeyboardInterrupt):
            embed_folder(root, ColourEncoder(), tmp_path / "out.parquet", batch_size=3)
    encoder = Counting()
    assert finish(root, tmp_path, encoder).resumed == 22
    assert encoder.seen == 0
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_an_earlier_table_stays_until_the_new_one_is_complete(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out.parquet").write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        embed_folder(root, ColourEncoder(), tmp_path / "out.parquet", progress=stop_after(5, KeyboardInterrupt))
    assert (tmp_path / "out.parquet").read_text() == "earlier"


def test_a_changed_photograph_is_embedded_again(root: Path, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    Image.new("RGB", (5, 5), (1, 2, 250)).save(root / "p0" / "1.png")
    encoder = Counting()
    result = finish(root, tmp_path, encoder)
    assert result.resumed == 8
    assert encoder.seen == 14
    assert [note.kind for note in result.notes] == ["resumed", "redone"]
    assert "4 photographs of an interrupted run were embedded again" in result.notes[1].message
    embed_folder(root, ColourEncoder(), tmp_path / "fresh.parquet", batch_size=3)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "fresh.parquet").read_bytes()


def test_a_photograph_of_the_same_size_and_another_time_counts_as_changed(root: Path, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    os.utime(root / "p0" / "1.png", ns=(1, 1))
    assert finish(root, tmp_path).resumed == 8


def test_a_skipped_photograph_that_was_mended_is_taken_in(root: Path, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    Image.new("RGB", (5, 5), (1, 2, 250)).save(root / "p1" / "x.jpg")
    result = finish(root, tmp_path)
    assert [skip.sample for skip in result.skipped] == ["p3/black.png"]
    assert result.embedded == 21


@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_changed_list_shifts_shards_and_still_gives_the_right_table(root: Path, tmp_path: Path, change: str) -> None:
    interrupt(root, tmp_path)
    if change == "added":
        Image.new("RGB", (5, 5), (1, 2, 250)).save(root / "p1" / "00.png")
    else:
        (root / "p1" / "0.png").unlink()
    result = finish(root, tmp_path)
    assert result.resumed == 4  # the shard before the change
    embed_folder(root, ColourEncoder(), tmp_path / "fresh.parquet", batch_size=3)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "fresh.parquet").read_bytes()


def test_another_encoder_starts_afresh_and_says_so(root: Path, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    encoder = Counting(weights="1" * 64)
    result = finish(root, tmp_path, encoder)
    assert result.resumed == 0
    assert encoder.seen == 21
    assert [note.kind for note in result.notes] == ["restarted"]
    assert result.notes[0].message.endswith("the encoder changed (weights_sha256)")


def test_starting_afresh_on_request(root: Path, whole: bytes, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    result = finish(root, tmp_path, resume=False)
    assert result.resumed == 0
    assert "a fresh start was asked for" in result.notes[0].message
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_labels_are_those_of_the_last_run(root: Path, tmp_path: Path) -> None:
    from faceblind.data.tables import read_table

    labels = tmp_path / "labels.csv"
    rows = [f"p{p}/{i}.png" for p in range(4) for i in range(5)]
    labels.write_text("path,identity\n" + "".join(f"{row},wrong\n" for row in rows))
    with pytest.raises(KeyboardInterrupt):
        embed_folder(
            root,
            ColourEncoder(),
            tmp_path / "out.parquet",
            labels_csv=labels,
            progress=stop_after(9, KeyboardInterrupt),
        )
    labels.write_text("path,identity\n" + "".join(f"{row},right\n" for row in rows))
    assert finish(root, tmp_path, labels_csv=labels).resumed == 8
    assert set(read_table(tmp_path / "out.parquet").require_identity()) == {"right"}


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "json"])
def test_damaged_shards_are_made_again(root: Path, whole: bytes, tmp_path: Path, damage: str) -> None:
    interrupt(root, tmp_path)
    shard = tmp_path / PARTIAL / "00001.npy"
    data = bytearray(shard.read_bytes())
    if damage == "cut":
        shard.write_bytes(data[:-5])
    elif damage == "flip":
        data[-1] ^= 1
        shard.write_bytes(data)
    elif damage == "gone":
        shard.unlink()
    else:
        shard.with_suffix(".json").write_text("{}")
    assert finish(root, tmp_path).resumed == 8
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_leftovers_of_a_kill_while_writing_are_no_obstacle(root: Path, whole: bytes, tmp_path: Path) -> None:
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL / ".manifest.json.123.abc.part").write_text("{")
    finish(root, tmp_path)
    assert (tmp_path / "out.parquet").read_bytes() == whole


def test_shards_of_another_layout_are_not_used(root: Path, whole: bytes, tmp_path: Path) -> None:
    interrupt(root, tmp_path)
    manifest = tmp_path / PARTIAL / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"shard_rows": 5}))
    result = finish(root, tmp_path)
    assert result.resumed == 0
    assert "another version of faceblind" in result.notes[0].message
    assert (tmp_path / "out.parquet").read_bytes() == whole
