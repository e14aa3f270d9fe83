"""A clean faiss index from raw vectors: an existing index or a table, streamed through `Projector.apply`.

The index that is built stands in memory, as faiss builds indexes there; beyond it, memory holds one batch and the rows
that a factory is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, ProjectorError, UsageError
from faceblind.data.embeddings import unit_rows
from faceblind.data.meta import TableMeta
from faceblind.data.tables import EmbeddingTable
from faceblind.deploy.checks import cautions_for
from faceblind.deploy.export.check import Check
from faceblind.deploy.export.describe import described
from faceblind.deploy.export.faiss import check_chain, metric_of, need_faiss, wrap_index
from faceblind.deploy.export.faiss_sidecar import Sidecar, brief, write_index
from faceblind.deploy.export.faiss_source import Ids, IndexSource, open_index, stored_rows
from faceblind.deploy.export.steps import Steps
from faceblind.erase import Projector

if TYPE_CHECKING:
    import faiss

_TRAIN_ROWS = 20_000
_TRAIN_PER_LIST = 64
_COMPARED = 16
_CLEAN = 1e-5  # raw vectors have more than this of their length in some removed direction
_Rows = Iterator[tuple[Ids | None, NDArray[np.float32], int]]


@dataclass(frozen=True, kw_only=True)
class FaissReport:
    """What `rebuild_index` did."""

    path: Path
    rows: int
    dim: int
    """Columns of the stored vectors."""
    factory: str
    trained_on: int
    """Rows that the factory was trained on; 0 when it needs none."""
    emptied: int
    """Rows that had nothing left and are stored as zeros."""
    check: Check
    """The projector in front of the index, as read back, against `Projector.apply`."""
    stored_difference: float | None
    """Largest difference between stored vectors, as read back, and clean ones, of the first rows: 0 of kinds that store
    vectors as they are, a matter of the factory of others, None where they cannot be read."""
    cautions: tuple[str, ...]


def rebuild_index(
    projector: Projector,
    source: EmbeddingTable | faiss.Index | str | Path,
    output: str | Path,
    *,
    factory: str = "Flat",
    metric: str = "inner-product",
    compact: bool = False,
    renormalise: bool = True,
    ids: str = "rows",
    train_rows: int | None = None,
    meta: TableMeta | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FaissReport:
    """Write an index of clean vectors that takes raw queries, and its sidecar ``OUTPUT.json``.

    Every stored vector comes from `Projector.apply`. The projector stands in front of the index (`wrap_index`), so raw
    queries, and raw vectors added later, pass it; do not project them before. The source is only read.

    Parameters
    ----------
    source
        A table from `open_table`; or a faiss index, or its file, that holds raw vectors: flat, scalar- or
        product-quantised, HNSW or IVF, also under an IDMap. Ids are kept.
    factory : str
        What to build, in the words of ``faiss.index_factory``, e.g. ``"Flat"``, ``"HNSW32"``, ``"IVF1024,Flat"``.
    metric : {"inner-product", "l2"}
    compact, renormalise
        As for `Projector.apply`.
    ids : {"rows", "sample"}
        Of a table: row numbers, or its keys, which must then be whole numbers.
    train_rows : int, optional
        Rows to train on, evenly spaced; when missing, 64 per inverted list and at least 20,000, if there are as many.
    meta : TableMeta, optional
        Provenance of an index that has no sidecar.
    force
        Go on although the projector was made for another encoder or the vectors are clean already.

    Raises
    ------
    EncoderError
        The projector was made for another encoder.
    ProjectorError
        Another dimension, the vectors went through a projector already, or the self-check failed.
    DataError
        A row with NaN or infinity, keys that are no ids, too few rows to train on, or an index that cannot be read.
    UsageError
        faiss does not know the factory or it does not suit the dimension.
    OutputError
        The place cannot be written; nothing is left behind.
    """
    faiss = need_faiss("rebuilding a faiss index")
    read = _Source.of(source, meta, ids)
    if Path(output).exists() and Path(read.name).exists() and Path(output).samefile(read.name):
        raise UsageError(f"{output} is the source itself, which is only read: name another file")
    cautions = _cautions(projector, read, force)
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    inner = _made(faiss, steps.output_dim, factory, metric)

    def clean(rows: NDArray[Any], first: int) -> tuple[NDArray[np.float32], int]:
        applied = projector.apply(rows, compact=compact, renormalise=renormalise, first_row=first)
        return applied.vectors, int(applied.emptied.size)

    trained = 0
    if not inner.is_trained:
        wanted = train_rows or max(_TRAIN_ROWS, _TRAIN_PER_LIST * _lists(faiss, inner))
        sample = clean(read.sample(min(wanted, read.rows)), 0)[0]
        trained = len(sample)
        _told(lambda: inner.train(sample), f"training {factory!r} on {trained:,} rows", DataError)
    if read.keyed and not _takes_ids(faiss, inner):
        inner = faiss.IndexIDMap2(inner)
    numbered = isinstance(inner, faiss.IndexIDMap) and not read.keyed
    done = emptied = 0
    first_rows: tuple[NDArray[np.float32], Ids | None] = (np.empty((0, steps.output_dim), np.float32), None)
    for own, rows, first in read.batches():
        if first == 0 and not force:
            _refuse_clean(projector, rows, read.name)
        vectors, none_left = clean(rows, first)
        own = np.arange(first, first + len(rows)) if numbered else own
        emptied += none_left
        if first == 0:
            first_rows = vectors[:_COMPARED].copy(), None if own is None else own[:_COMPARED]
        _add(inner, vectors, own, factory)
        done += len(rows)
        if progress is not None:
            progress(done, read.rows)
    if done != read.rows or inner.ntotal != read.rows:
        raise DataError(f"{read.name} has {read.rows:,} rows, {done:,} were read and {inner.ntotal:,} are in the index")
    index = wrap_index(projector, inner, compact=compact, renormalise=renormalise, holds_clean=True)
    sidecar = Sidecar(
        meta=TableMeta(
            encoder=read.meta.encoder or projector.encoder,
            synthetic=read.meta.synthetic,
            projector=projector.digest,
        ),
        form=described(projector, compact=compact, renormalise=renormalise),
        count=read.rows,
        factory=factory,
        metric=metric,
        faiss=str(faiss.__version__),
        source=Path(read.name).name,
    )

    def same(again: Any) -> tuple[Check, float | None]:
        if again.ntotal != read.rows:
            raise DataError(f"{again.ntotal:,} rows were read back from the index that was written, not {read.rows:,}")
        stored = stored_rows(again.index, *first_rows)
        apart = None if stored is None else float(np.abs(stored - first_rows[0]).max())
        if apart and factory.endswith("Flat"):
            raise ProjectorError(f"stored vectors differ from clean ones by {apart:.1e}; nothing written")
        return check_chain(projector, again, compact=compact, renormalise=renormalise), apart

    check, apart = write_index(index, output, sidecar, same)
    return FaissReport(
        path=Path(output),
        rows=done,
        dim=steps.output_dim,
        factory=factory,
        trained_on=trained,
        emptied=emptied,
        check=check,
        stored_difference=apart,
        cautions=tuple(cautions),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
    """A table or an index, read alike."""

    rows: int
    dim: int
    meta: TableMeta
    name: str
    keyed: bool
    """Whether rows have ids other than their numbers."""
    lossy: str
    batches: Callable[[], _Rows]

    @classmethod
    def of(cls, source: Any, meta: TableMeta | None, ids: str) -> _Source:
        if ids not in {"rows", "sample"}:
            raise UsageError(f"ids are 'rows' or 'sample', got {ids!r}")
        if not hasattr(source, "batches"):
            return cls._of_index(open_index(source, meta))
        keyed = ids == "sample"

        def batches() -> _Rows:
            for batch in source.batches():
                yield _numbers(batch.sample) if keyed else None, batch.vectors, batch.start

        return cls(
            rows=source.rows,
            dim=source.dim,
            meta=meta or source.meta,
            name=str(source.path),
            keyed=keyed,
            lossy="",
            batches=batches,
        )

    @classmethod
    def _of_index(cls, index: IndexSource) -> _Source:
        def batches() -> _Rows:
            first = 0
            for own, rows in index.batches():
                yield own, rows, first
                first += len(rows)

        return cls(
            rows=index.rows,
            dim=index.dim,
            meta=index.meta,
            name=index.name,
            keyed=index.ids is not None or index.stored.startswith("IndexIVF"),
            lossy="" if index.exact else index.stored,
            batches=batches,
        )

    def sample(self, count: int) -> NDArray[np.float32]:
        """Return evenly spaced rows."""
        wanted = np.arange(count) * self.rows // count
        taken = []
        for _, rows, first in self.batches():
            inside = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, first + len(rows))] - first
            taken.append(np.asarray(rows[inside], np.float32))
        return np.concatenate(taken)


def _cautions(projector: Projector, source: _Source, force: bool) -> list[str]:
    said = list(
        cautions_for(projector, source.meta, source.dim, source.name, remedy="rebuild from raw vectors", force=force)
    )
    if source.lossy:
        said.append(f"{source.name} is an {source.lossy}: it keeps approximations of its vectors, which are projected")
    return said


def _refuse_clean(projector: Projector, rows: NDArray[Any], name: str) -> None:
    """Refuse vectors that have nothing in the removed directions: they went through the projector, whatever is recorded."""
    if projector.mean is None and len(rows):
        most = float(np.abs(unit_rows(rows) @ projector.pair.basis32).max())
        if most < _CLEAN:
            raise ProjectorError(
                f"the vectors of {name} have nothing in the removed directions (at most {most:.0e} of their length): "
                "they are clean already; rebuild from raw vectors, or pass --force (force=True)"
            )


def _made(faiss: Any, dim: int, factory: str, metric: str) -> Any:
    number = metric_of(metric)
    return _told(
        lambda: faiss.index_factory(dim, factory, number), f"factory {factory!r} for {dim} features", UsageError
    )


def _takes_ids(faiss: Any, index: Any) -> bool:
    if isinstance(index, faiss.IndexPreTransform):
        index = faiss.downcast_index(index.index)
    return isinstance(index, faiss.IndexIVF | faiss.IndexIDMap)


def _lists(faiss: Any, index: Any) -> int:
    ivf = faiss.try_extract_index_ivf(index)
    return 0 if ivf is None else int(ivf.nlist)


def _add(index: Any, vectors: NDArray[np.float32], ids: Ids | None, factory: str) -> None:
    if ids is None:
        _told(lambda: index.add(vectors), f"adding to {factory!r}", UsageError)
    else:
        _told(lambda: index.add_with_ids(vectors, ids), f"adding with ids to {factory!r}", UsageError)


def _told(run: Callable[[], Any], what: str, error: type[Exception]) -> Any:
    """Run something of faiss and put its C++ errors into one line."""
    try:
        return run()
    except RuntimeError as problem:
        raise error(f"{what} failed: faiss says {brief(problem)}") from problem


def _numbers(keys: NDArray[np.str_]) -> Ids:
    try:
        return keys.astype(np.int64)
    except (ValueError, OverflowError) as error:
        bad = next(key for key in keys.tolist() if not key.lstrip("-").isdigit())
        raise DataError(f"key {bad!r} is no faiss id, which are whole numbers: use row numbers (ids='rows')") from error
