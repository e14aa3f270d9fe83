"""Erasing identity from Arrow batches: the one function for pipelines that are not ours (Spark, Daft, Ray Data, Flight).

A batch goes in and a batch of the same columns comes out, with other vectors. Nothing is kept between batches but the
projector, so any engine may cut, order and repeat them as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from faceblind._errors import DataError, ProjectorError, UsageError
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.data.tables.arrow import load_arrow, meta_of
from faceblind.data.tables.columns import find_column
from faceblind.data.tables.vectors import all_finite, matrix_of_arrow, to_stored, vector_type
from faceblind.erase import Projector

if TYPE_CHECKING:
    import pyarrow as pa

AnyBatch = TypeVar("AnyBatch", "pa.RecordBatch", "pa.Table")
_PURPOSE = "erasing Arrow batches"
_HERE = Path("batch")  # where messages say that a row is
_STORED = ("float16", "float32")


def erase_batch(
    batch: AnyBatch,
    projector: Projector,
    *,
    embedding: str = "embedding",
    compact: bool = False,
    renormalise: bool = True,
    dtype: str | None = None,
    force: bool = False,
    first_row: int = 0,
) -> AnyBatch:
    """Replace the vectors of a batch by what the projector leaves of them; other columns are the same objects.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        With a column of lists (of fixed size or not) of float16, float32 or float64.
    embedding : str
        That column; it becomes a list of fixed size.
    compact : bool
        Give d - r columns with identical cosines.
    renormalise : bool
        Scale rows to unit length; rows with nothing left are zeros in any case.
    dtype : {"float16", "float32"}, optional
        Precision of the result; float16 for float16 and float32 for all else when missing.
    force : bool
        Go on although the batch says that it is of another encoder or was projected before.
    first_row : int
        Number of the first row, for messages.

    Returns
    -------
    pyarrow.RecordBatch or pyarrow.Table
        As given, with `erased_schema`.

    Raises
    ------
    DataError
        No such column, or a vector that is missing, of another length, not finite or, afterwards, too large for
        float16; the row is named.
    EncoderError, ProjectorError
        The batch says that it does not go with the projector, or has vectors of another length.
    """
    pa = load_arrow(_PURPOSE)
    schema = erased_schema(batch.schema, projector, embedding=embedding, compact=compact, dtype=dtype, force=force)
    at = schema.get_field_index(embedding)
    vectors = matrix_of_arrow(batch.column(at), projector.dim, _HERE, first_row)
    # One thread: engines run a worker for each core, and rounding must not depend on how many there are.
    with threadpool_limits(limits=1, user_api="blas"):
        erased = projector.apply(vectors, compact=compact, renormalise=renormalise, first_row=first_row).vectors
    column = _column(pa, erased, schema.field(at).type, first_row)
    columns = [column if i == at else batch.column(i) for i in range(batch.num_columns)]
    return type(batch).from_arrays(columns, schema=schema)


def erased_schema(
    schema: pa.Schema,
    projector: Projector,
    *,
    embedding: str = "embedding",
    compact: bool = False,
    dtype: str | None = None,
    force: bool = False,
) -> pa.Schema:
    """Return the schema of what `erase_batch` makes of batches of `schema`; for its parameters see there.

    Where the schema carries faceblind's metadata, they then name the projector.
    """
    pa = load_arrow(_PURPOSE)
    find_column(embedding, schema.names, "embedding", _HERE)
    at = schema.get_field_index(embedding)
    field = schema.field(at)
    length, stored = vector_type(field.type, embedding, _HERE)
    if length not in {None, projector.dim}:
        raise ProjectorError(f"the projector is for vectors of {projector.dim} features, {embedding!r} has {length}")
    name = dtype or ("float16" if stored == np.float16 else "float32")
    if name not in _STORED:
        raise UsageError(f"vectors are stored as {' or '.join(_STORED)}, got {name!r}")
    value = pa.float16() if name == "float16" else pa.float32()
    width = projector.compact_dim if compact else projector.dim
    changed = schema.set(at, pa.field(embedding, pa.list_(value, width), metadata=field.metadata))
    meta = meta_of(schema, _HERE)
    projector.check_encoder(meta.encoder, force=force)
    if meta.projector is not None and not force:
        raise ProjectorError(
            f"the batch was already put through the projector {meta.projector[:12]}; apply to the original, or force it"
        )
    if METADATA_KEY.encode() in (schema.metadata or {}):
        said = TableMeta(encoder=meta.encoder, synthetic=meta.synthetic, projector=projector.digest)
        changed = changed.with_metadata(schema.metadata | {METADATA_KEY.encode(): said.to_json().encode()})
    return changed


@dataclass(frozen=True, kw_only=True)
class BatchEraser:
    """`erase_batch` with its options, as a value that travels by pickle; `batch_eraser` makes it.

    Called with a batch, it returns the erased batch.
    """

    path: Path | None
    """File of the projector; read once in each process."""
    held: Projector | None
    """The projector itself, when there is no file."""
    digest: str
    """Of the projector; a file with another one is refused."""
    embedding: str
    compact: bool
    renormalise: bool
    dtype: str | None
    force: bool

    @property
    def projector(self) -> Projector:
        """The projector; raises `ProjectorError` when the file is another one than it was."""
        if self.path is None:
            return self.held  # type: ignore[return-value]  # one of the two is there
        return _loaded(self.path, self.digest)

    @property
    def dim(self) -> int:
        """Length of an erased vector."""
        return self.projector.compact_dim if self.compact else self.projector.dim

    def __call__(self, batch: AnyBatch) -> AnyBatch:
        """Erase a batch; see `erase_batch`."""
        return self._erased(batch, 0)

    def for_spark(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Erase the batches of a partition, as Spark's ``mapInArrow`` wants it; rows are counted over all of them.

        Vectors come out as plain lists of float32: Spark knows neither lists of fixed size nor float16.
        """
        pa = load_arrow(_PURPOSE)
        row = 0
        for batch in batches:
            erased = self._erased(batch, row)
            at = erased.schema.get_field_index(self.embedding)
            yield erased.set_column(at, self.embedding, erased.column(at).cast(pa.list_(pa.float32())))
            row += batch.num_rows

    def column(self, vectors: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Erase a column of vectors, for engines that hand over columns."""
        pa = load_arrow(_PURPOSE)
        table = self(pa.table({self.embedding: vectors}))
        return table.column(0).combine_chunks()

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of erased batches; see `erased_schema`."""
        return erased_schema(
            schema,
            self.projector,
            embedding=self.embedding,
            compact=self.compact,
            dtype=self.dtype,
            force=self.force,
        )

    def _erased(self, batch: AnyBatch, first_row: int) -> AnyBatch:
        return erase_batch(
            batch,
            self.projector,
            embedding=self.embedding,
            compact=self.compact,
            renormalise=self.renormalise,
            dtype=self.dtype,
            force=self.force,
            first_row=first_row,
        )


def batch_eraser(
    projector: str | Path | Projector,
    *,
    embedding: str = "embedding",
    compact: bool = False,
    renormalise: bool = True,
    dtype: str | None = None,
    force: bool = False,
) -> BatchEraser:
    """Return `erase_batch` with a projector and options, ready to be sent to workers.

    Parameters
    ----------
    projector
        A file that all workers see under the same path, which each process reads once; or a projector, which then
        travels with every task (a megabyte or so). For the others see `erase_batch`.

    Raises
    ------
    ProjectorError
        The file cannot be read; also later, in a worker, when it is another projector there.
    """
    path = None if isinstance(projector, Projector) else Path(projector).absolute()
    held = projector if isinstance(projector, Projector) else None
    digest = Projector.load(path).digest if path is not None else held.digest  # type: ignore[union-attr]
    return BatchEraser(
        path=path,
        held=held,
        digest=digest,
        embedding=embedding,
        compact=compact,
        renormalise=renormalise,
        dtype=dtype,
        force=force,
    )


@lru_cache(maxsize=8)
def _loaded(path: Path, digest: str) -> Projector:
    projector = Projector.load(path)
    if projector.digest != digest:
        raise ProjectorError(
            f"{path} holds the projector {projector.digest[:12]} here, but {digest[:12]} was meant: give all workers one file"
        )
    return projector


def _column(pa: Any, erased: NDArray[np.float32], kind: Any, first_row: int) -> Any:
    width = kind.value_type.bit_width // 8
    cast = to_stored(erased, np.dtype(f"f{width}"))
    if not all_finite(cast):
        row = int(np.flatnonzero(~np.isfinite(cast).all(axis=1))[0])
        raise DataError(
            f"row {first_row + row} has the value {np.abs(erased[row]).max():.4g}, which does not fit float16; "
            "renormalise, or ask for float32"
        )
    return pa.FixedSizeListArray.from_arrays(pa.array(cast.reshape(-1), kind.value_type), type=kind)
