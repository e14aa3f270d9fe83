"""Write vectors as ``.npy``: a file with its metadata beside it, or a clip-retrieval folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from faceblind._errors import FormatError, OutputError, UsageError
from faceblind._files import atomic_path
from faceblind.data.tables.alignment import ROW_COLUMNS
from faceblind.data.tables.arrow import load_arrow, open_parquet
from faceblind.data.tables.clip_retrieval import METADATA, VECTORS, metadata_file, vectors_file
from faceblind.data.tables.columns import row_numbers
from faceblind.data.tables.npy import GrowingNpy
from faceblind.data.tables.npy_layout import sidecar
from faceblind.data.tables.sink import Block, Layout
from faceblind.data.tables.write_parquet import ROW_GROUP, ParquetSink


class NpySink:
    """A ``.npy`` file; labels and carried columns go to a ``.parquet`` file of the same name.

    As long as there are no identities, no carried columns and no keys but row numbers, there is no such file,
    pyarrow is not needed, and the table's metadata goes to ``NAME.npy.json``.
    """

    def __init__(self, temporary: Path, target: Path, layout: Layout, stack: ExitStack) -> None:
        _refuse_row_columns(layout, target)
        self._target = target
        self._layout = layout
        self._stack = stack
        self._labels: ParquetSink | None = None
        self._vectors = GrowingNpy(temporary, layout.dim, layout.dtype)

    @property
    def paired(self) -> bool:
        """Whether there is a Parquet file beside the vectors."""
        return self._labels is not None

    def append(self, block: Block) -> None:
        """Add rows."""
        # Labels first: they may be refused, and then nothing must have been added.
        if self._labels is None and self._says_more_than_numbers(block):
            self._labels = self._open_labels()
        if self._labels is not None:
            self._labels.append(block)
        self._vectors.append(block.vectors)

    def finish(self) -> None:
        """Complete both files."""
        self._vectors.finish()
        if self._labels is not None:
            self._labels.finish()
            return
        note = self._stack.enter_context(atomic_path(sidecar(self._target)))
        note.write_bytes(self._layout.meta.to_json().encode())

    def close(self) -> None:
        """Let go of the files."""
        self._vectors.close()
        if self._labels is not None:
            self._labels.close()

    def _says_more_than_numbers(self, block: Block) -> bool:
        return (
            block.identity is not None
            or block.carried is not None
            or self._beside.exists()  # it would be read as the metadata of the new vectors
            or not np.array_equal(block.sample, row_numbers(self._vectors.rows, len(block)))
        )

    @property
    def _beside(self) -> Path:
        return self._target.with_suffix(".parquet")

    def _open_labels(self) -> ParquetSink:
        load_arrow("writing the labels of a .npy table")
        if self._beside.exists():
            _refuse_other_table(self._beside, self._target, self._layout)
        temporary = self._stack.enter_context(atomic_path(self._beside))
        labels = ParquetSink(temporary, self._layout, with_vectors=False)
        # The rows so far were known by their numbers.
        for start in range(0, self._vectors.rows, ROW_GROUP):
            keys = row_numbers(start, min(ROW_GROUP, self._vectors.rows - start))
            labels.append(Block(np.empty((keys.size, 0)), None, keys, None))
        return labels


class ClipRetrievalSink:
    """A clip-retrieval folder with a fixed number of rows per shard."""

    def __init__(self, temporary: Path, target: Path, layout: Layout, shard_rows: int) -> None:
        load_arrow("writing a clip-retrieval folder")
        if shard_rows < 1:
            raise UsageError(f"a shard needs at least one row, got shard_rows={shard_rows}")
        _refuse_row_columns(layout, target)
        _refuse_other_folder(target)
        self._folder = temporary
        self._layout = layout
        self._shard_rows = shard_rows
        self._number = 0
        self._vectors: GrowingNpy | None = None
        self._labels: ParquetSink | None = None
        for name in (VECTORS, METADATA):
            (temporary / name).mkdir(parents=True)

    def append(self, block: Block) -> None:
        """Add rows; full shards are completed."""
        done = 0
        while done < len(block):
            vectors, labels = self._current()
            stop = min(done + self._shard_rows - vectors.rows, len(block))
            part = block.rows(done, stop)
            labels.append(part)
            vectors.append(part.vectors)
            done = stop
            if vectors.rows == self._shard_rows:
                self.finish()

    def finish(self) -> None:
        """Complete the current shard."""
        if self._vectors is None or self._labels is None:
            return
        self._vectors.finish()
        self._labels.finish()
        self._vectors = self._labels = None
        self._number += 1

    def close(self) -> None:
        """Let go of the files."""
        for part in (self._vectors, self._labels):
            if part is not None:
                part.close()

    def _current(self) -> tuple[GrowingNpy, ParquetSink]:
        if self._vectors is None or self._labels is None:
            layout = self._layout
            self._vectors = GrowingNpy(vectors_file(self._folder, self._number), layout.dim, layout.dtype)
            self._labels = ParquetSink(metadata_file(self._folder, self._number), layout, with_vectors=False)
        return self._vectors, self._labels


def _refuse_row_columns(layout: Layout, target: Path) -> None:
    schema = layout.carried_schema
    if schema is None:
        return
    pa = load_arrow("writing the labels of a .npy table")
    for name in ROW_COLUMNS:
        if name in schema.names and pa.types.is_integer(schema.field(name).type):
            raise UsageError(
                f"{target}: an integer column {name!r} beside .npy vectors means the number of the vector; "
                "rename it or write a .parquet table"
            )


def _refuse_other_table(beside: Path, target: Path, layout: Layout) -> None:
    fix = f"move it, or write {target.name} elsewhere"
    if not target.exists():
        raise OutputError(f"cannot write {target}: its labels would replace {beside}, which is not part of it; {fix}")
    try:
        names = open_parquet(beside).schema_arrow.names
    except FormatError as error:
        raise OutputError(
            f"cannot write {target}: its labels would replace {beside}, which is not a Parquet file; {fix}"
        ) from error
    if layout.embedding in names:
        raise OutputError(
            f"cannot write {target}: its labels would replace {beside}, which is a table with vectors; {fix}"
        )


def _refuse_other_folder(target: Path) -> None:
    if not target.is_dir():
        return
    ours = {VECTORS: ".npy", METADATA: ".parquet"}
    for entry in sorted(target.iterdir()):
        inside = sorted(entry.iterdir()) if entry.name in ours and entry.is_dir() else [entry]
        for path in inside:
            if path.parent == target or path.suffix != ours[entry.name] or not path.stem.startswith(entry.name + "_"):
                raise OutputError(
                    f"cannot write {target}: the folder holds {path.relative_to(target)}, which would be "
                    "deleted; name a new folder"
                )
