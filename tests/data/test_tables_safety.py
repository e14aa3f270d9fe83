"""Nothing half written is left, and nothing of others is destroyed."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from table_samples import META, SUFFIXES, save_npy, some_set, tree, unit_vectors, write_parquet

from faceblind._errors import DataError, OutputError
from faceblind._files import sha256_file
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer, read_table, write_table

X = unit_vectors(5, 3)
NONE = TableMeta()


def digests(folder: Path) -> dict[str, str]:
    return {name: sha256_file(folder / name) for name in tree(folder)}


def stop_after(path: Path, rows: int, error: BaseException) -> None:
    with open_writer(path, meta=META, dim=2, shard_rows=1000) as writer:
        writer.write(np.ones((rows, 2)), ["a"] * rows)
        raise error


# --- nothing half written


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()])
@pytest.mark.parametrize("rows", [0, 3, 20_000])
def test_an_interrupted_writer_leaves_what_was_there(tmp_path, suffix, error, rows):
    path = tmp_path / f"t{suffix}"
    write_table(path, some_set())
    before = digests(tmp_path)
    with pytest.raises(type(error)):
        stop_after(path, rows, error)
    assert digests(tmp_path) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_interrupted_writer_leaves_nothing_where_nothing_was(tmp_path, suffix):
    with pytest.raises(KeyboardInterrupt):
        stop_after(tmp_path / f"t{suffix}", 3, KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_without_rows_is_not_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    with pytest.raises(DataError, match=rf"t{suffix}: no rows were written"), open_writer(path, meta=META, dim=2):
        pass
    with (
        pytest.raises(DataError, match="no rows were written"),
        open_writer(path, meta=META, dim=2) as writer,
    ):
        writer.write(np.ones((0, 2)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_full_disk(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table(path, some_set())
    before = digests(tmp_path)
    vectors = np.random.default_rng(0).standard_normal((40_000, 8)).astype(np.float32)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
    try:
        with (
            pytest.raises(OutputError, match=rf"cannot write {tmp_path}/t(\.\w+)?: File too large"),
            open_writer(path, meta=META, dim=8) as writer,
        ):
            writer.write(vectors, vectors[:, 0].astype(str))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert digests(tmp_path) == before


class FullFile:
    """A file on a full disk."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()

    def __getattr__(self, name):
        return getattr(self._stream, name)


@pytest.mark.parametrize("suffix", [".parquet", ".npy", ""])
def test_no_space_left(tmp_path, monkeypatch, suffix):
    real = Path.open

    def open_full(self, mode="r", *args, **kwargs):
        stream = real(self, mode, *args, **kwargs)
        return FullFile(stream) if "w" in mode else stream

    monkeypatch.setattr(Path, "open", open_full)
    with (
        pytest.raises(OutputError, match=rf"cannot write {tmp_path}/t{suffix}(\.json)?: No space left on device"),
        open_writer(tmp_path / f"t{suffix}", meta=META, dim=3) as writer,
    ):
        writer.write(X)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_places_that_cannot_be_written(tmp_path, suffix):
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / f"t{suffix}"
    with pytest.raises(OutputError, match=rf"cannot write {path}: "):
        write_table(path, some_set())


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_folder_without_permission(tmp_path, monkeypatch, suffix):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OutputError, match=rf"cannot write {tmp_path}/t{suffix}: Permission denied"):
        write_table(tmp_path / f"t{suffix}", some_set())


def test_folders_above_are_made(tmp_path):
    write_table(tmp_path / "a" / "b" / "t.npz", some_set())
    assert tree(tmp_path) == ["a/b/t.npz"]


# --- nothing of others destroyed


@pytest.mark.parametrize("extra", ["photo.jpg", "img_emb/notes.txt", "text_emb/text_emb_0.npy", "metadata/x.parquet"])
def test_a_folder_with_other_things_is_not_replaced(tmp_path, extra):
    target = tmp_path / "t"
    write_table(target, some_set())
    (target / extra).parent.mkdir(exist_ok=True)
    (target / extra).write_text("precious")
    before = digests(tmp_path)
    with pytest.raises(OutputError, match=rf"the folder holds {extra.partition('/')[0]}.*would be deleted; name a new"):
        write_table(target, some_set())
    assert digests(tmp_path) == before


def test_a_clip_retrieval_folder_and_an_empty_one_are_replaced(tmp_path):
    (tmp_path / "t").mkdir()
    write_table(tmp_path / "t", some_set())
    write_table(tmp_path / "t", some_set(3))
    assert len(read_table(tmp_path / "t")) == 3
    (tmp_path / "t").rename(tmp_path / "t.v2")
    write_table(tmp_path / "t.v2", some_set(2))
    assert len(read_table(tmp_path / "t.v2")) == 2


@pytest.mark.parametrize(("name", "kind"), [("t", "file"), ("t.parquet", "folder"), ("t.npy", "folder")])
def test_files_and_folders_do_not_replace_each_other(tmp_path, name, kind):
    (tmp_path / name).write_text("x") if kind == "file" else (tmp_path / name).mkdir()
    with pytest.raises(OutputError, match=rf"cannot write .*{name}: it is a {kind} already"):
        write_table(tmp_path / name, some_set())


def test_labels_do_not_replace_a_table_of_the_same_name(tmp_path):
    write_table(tmp_path / "t.parquet", some_set())
    before = digests(tmp_path)
    with pytest.raises(OutputError, match=r"its labels would replace .*t\.parquet, which is not part of it"):
        write_table(tmp_path / "t.npy", some_set())
    save_npy(tmp_path / "t.npy", X)
    with pytest.raises(OutputError, match=r"t\.parquet, which is a table with vectors; move it, or write t\.npy else"):
        write_table(tmp_path / "t.npy", some_set())
    (tmp_path / "t.npy").unlink()
    assert digests(tmp_path) == before
    (tmp_path / "t.parquet").write_text("notes")
    save_npy(tmp_path / "t.npy", X)
    with pytest.raises(OutputError, match=r"t\.parquet, which is not a Parquet file"):
        write_table(tmp_path / "t.npy", some_set())


def test_vectors_alone_are_not_written_beside_a_table(tmp_path):
    write_parquet(tmp_path / "t.parquet", sample=["a"])
    with pytest.raises(OutputError, match=r"its labels would replace .*t\.parquet, which is not part of it"):
        write_table(tmp_path / "t.npy", EmbeddingSet.of(X))
    assert tree(tmp_path) == ["t.parquet"]


def test_vectors_alone_replace_a_pair_with_a_pair(tmp_path):
    write_table(tmp_path / "t.npy", some_set())
    write_table(tmp_path / "t.npy", EmbeddingSet.of(X, meta=META))
    assert tree(tmp_path) == ["t.npy", "t.parquet"]
    found = read_table(tmp_path / "t.npy", identity=None)
    assert (found.sample.tolist(), found.meta) == (list("01234"), META)


def test_keys_that_stop_being_row_numbers(tmp_path):
    n = 20_000
    with open_writer(tmp_path / "t.npy", meta=META, dim=1) as writer:
        writer.write(np.ones((n, 1)), sample=np.arange(n))
        writer.write(np.ones((2, 1)), sample=["x", "y"])
        writer.write(np.ones((1, 1)), sample=["z"])
    assert tree(tmp_path) == ["t.npy", "t.parquet"]
    assert read_table(tmp_path / "t.npy", identity=None).sample.tolist() == [*map(str, range(n)), "x", "y", "z"]


def test_stale_provenance_of_vectors_alone_goes(tmp_path):
    write_table(tmp_path / "t.npy", EmbeddingSet.of(X, meta=META))
    assert tree(tmp_path) == ["t.npy", "t.npy.json"]
    assert open_table(tmp_path / "t.npy", identity=None).meta == META
    with open_writer(tmp_path / "t.npy", meta=NONE, dim=3) as writer:
        writer.write(X, sample=list("abcde"))
    assert tree(tmp_path) == ["t.npy", "t.parquet"]
    assert open_table(tmp_path / "t.npy", identity=None).meta == NONE
