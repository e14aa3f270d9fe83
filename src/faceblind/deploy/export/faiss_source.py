"""Raw vectors out of an existing faiss index, in batches and with their ids.

Only kinds of index whose vectors can be read one by one are taken; of others faiss would end the process rather than
raise an error, so every kind is looked at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, ProjectorError
from faceblind.data.meta import TableMeta
from faceblind.data.tables.table import BATCH_ROWS
from faceblind.deploy.export.faiss_sidecar import brief, read_index, read_meta

Ids = NDArray[np.int64]
_LISTS = ("IndexIVFFlat", "IndexIVFScalarQuantizer", "IndexIVFPQ")
_EXACT = ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexIVFFlat", "IndexHNSWFlat", "IndexRefineFlat")


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexSource:
    """An index to read from.

    Attributes
    ----------
    stored : str
        Kind of index that holds the vectors.
    ids : (n,) int64 or None
        None when ids are row numbers.
    """

    index: Any
    stored: str
    ids: Ids | None
    rows: int
    dim: int
    meta: TableMeta
    name: str
    keep: Any
    """Keeps the outer index alive, whose parts are borrowed."""

    @property
    def exact(self) -> bool:
        """Whether the vectors are stored as they were added."""
        return self.stored in _EXACT

    def batches(self, size: int = BATCH_ROWS) -> Iterator[tuple[Ids | None, NDArray[np.float32]]]:
        """Yield (ids, vectors) of all rows; in the order of the inverted lists where there are such."""
        import faiss

        if isinstance(self.index, faiss.IndexIVF):
            yield from self._lists(size)
            return
        for start in range(0, self.rows, size):
            count = min(size, self.rows - start)
            ids = None if self.ids is None else self.ids[start : start + count]
            yield ids, self.index.reconstruct_n(start, count)

    def _lists(self, size: int) -> Iterator[tuple[Ids | None, NDArray[np.float32]]]:
        import faiss

        ivf, lists = self.index, self.index.invlists
        width = int(ivf.code_size)
        prefix = int(ivf.sa_code_size()) - width
        for number in range(ivf.nlist):
            count = int(lists.list_size(number))
            if not count:
                continue
            ids = faiss.rev_swig_ptr(lists.get_ids(number), count)
            codes = faiss.rev_swig_ptr(lists.get_codes(number), count * width).reshape(count, width)
            head = np.frombuffer(int(number).to_bytes(prefix, "little"), np.uint8)
            for start in range(0, count, size):
                part = codes[start : start + size]
                coded = np.hstack([np.broadcast_to(head, (len(part), prefix)), part])
                own = ids[start : start + size].astype(np.int64)
                yield own if self.ids is None else self.ids[own], ivf.sa_decode(np.ascontiguousarray(coded))


def open_index(source: Any, meta: TableMeta | None = None) -> IndexSource:
    """Look into an index, or the file of one (memory-mapped), before anything is read.

    Raises
    ------
    DataError
        It is empty, or of a kind whose vectors cannot be read.
    ProjectorError
        Its record says that a projector stands in front of it already.
    FormatError
        The file is not a faiss index, or its record is damaged.
    """
    name = "an index in memory"
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise DataError(f"{path} does not exist")
        name, source, found = str(path), read_index(path), read_meta(path)
        meta = meta or found
        if found.projector is not None and isinstance(source, _faiss().IndexPreTransform):
            raise ProjectorError(
                f"{name} was already put through projector {found.projector[:12]}, its record says: rebuild from raw vectors"
            )
    index, ids = _inside(source, name)
    if index.ntotal == 0:
        raise DataError(f"{name} holds no vectors")
    return IndexSource(
        index=index,
        stored=type(index).__name__,
        ids=ids,
        rows=int(index.ntotal),
        dim=int(index.d),
        meta=meta or TableMeta(),
        name=name,
        keep=source,
    )


def _inside(index: Any, name: str) -> tuple[Any, Ids | None]:
    """Return the index that holds the vectors, and their ids."""
    import faiss

    index = faiss.downcast_index(index)
    ids = None
    if isinstance(index, faiss.IndexIDMap):  # IndexIDMap2 is one, too
        ids = faiss.vector_to_array(index.id_map).astype(np.int64)
        index = faiss.downcast_index(index.index)
    readable = isinstance(index, faiss.IndexFlatCodes | faiss.IndexHNSW | faiss.IndexRefineFlat)
    if not readable and type(index).__name__ not in _LISTS:  # other inverted lists pack their codes
        kind = type(index).__name__
        hint = " (behind a transform vectors are no longer raw)" if isinstance(index, faiss.IndexPreTransform) else ""
        raise DataError(
            f"{name} is an {kind}{hint}, whose raw vectors cannot be read: rebuild from the table of embeddings it was made from"
        )
    try:  # the kinds above can, if their storage can
        if isinstance(index, faiss.IndexIVF):
            index.sa_code_size()
        elif index.ntotal:
            index.reconstruct(0)
    except RuntimeError as error:
        raise DataError(f"the vectors of {name} ({type(index).__name__}) cannot be read: {brief(error)}") from error
    return index, ids


def stored_rows(index: Any, vectors: NDArray[np.float32], ids: Ids | None) -> NDArray[np.float32] | None:
    """Read back how an index stores its first rows.

    Parameters
    ----------
    vectors, ids
        The rows as they were added first, and their ids; row numbers when None.

    Returns
    -------
    (n, d) float32 or None
        None of kinds of index that cannot be read.
    """
    import faiss

    try:
        inner, mapped = _inside(index, "the index")
    except DataError:
        return None
    if not isinstance(inner, faiss.IndexIVF):
        return np.asarray(inner.reconstruct_n(0, len(vectors)))
    ids = np.arange(len(vectors)) if ids is None or mapped is not None else ids
    rows = np.empty_like(vectors)
    lists: Any = inner.invlists
    for at, number in enumerate(inner.quantizer.search(vectors, 1)[1][:, 0].tolist()):
        inside = faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number))
        places = np.flatnonzero(inside == ids[at])
        if not places.size:
            raise DataError(f"id {ids[at]} is not in the list of the index that its vector belongs to")
        inner.reconstruct_from_offset(number, int(places[0]), faiss.swig_ptr(rows[at]))
    return rows


def _faiss() -> Any:
    import faiss

    return faiss
