"""The query side: queries go through the projector of the index they search, once, and mismatches are refused.

A raw query against a clean index is the mistake that goes unnoticed: scores come out a little lower and nothing fails. The
fingerprints that tables, indexes and stores carry say what belongs together; where they are missing, `residual` tells raw
vectors from clean ones by what is left in the removed directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, EncoderError, ProjectorError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.deploy.index_meta import index_meta
from faceblind.erase import Projector

__all__ = ["QueryProjector", "check_query", "index_meta", "looks_raw", "residual"]

_RAW = 1e-4
"""Clean float16 vectors hold up to about 1e-6 of their squared length in the removed directions; raw ones 1e-2 and more."""


def check_query(index: TableMeta, query: TableMeta) -> tuple[str, ...]:
    """Refuse queries that do not belong to an index.

    Parameters
    ----------
    index, query : TableMeta
        What is recorded of each; `index_meta` reads it from files and stores.

    Returns
    -------
    tuple of str
        Cautions about what could not be checked.

    Raises
    ------
    ProjectorError
        One side is raw and the other clean, or they went through different projectors.
    EncoderError
        They come from different encoders.
    """
    cautions = []
    if index.encoder is None or query.encoder is None:
        side = "index" if index.encoder is None else "query"
        cautions.append(f"the {side} does not say which encoder it is from: make sure that it is the same one")
    elif differences := query.encoder.differs_from(index.encoder):
        raise EncoderError(
            f"the query is from encoder {query.encoder.encoder!r}, the index from {index.encoder.encoder!r} "
            f"({'; '.join(differences)}): embed the query with the encoder of the index"
        )
    if index.projector != query.projector:
        raise ProjectorError(_mismatch(index.projector, query.projector))
    return tuple(cautions)


class QueryProjector:
    """Makes queries ready for an index of clean vectors: ``QueryProjector(projector, index)(vectors)``.

    Parameters
    ----------
    projector : Projector
        The one that the index was made with.
    index : TableMeta, optional
        What is recorded of the index. Without it nothing can be checked.
    compact : bool
        The index holds the compact form (d - r columns).
    renormalise : bool
        Scale to unit length.

    Attributes
    ----------
    cautions : tuple of str
        What could not be checked.

    Raises
    ------
    ProjectorError
        The index is raw, or was made with another projector.
    EncoderError
        The index is from another encoder than the projector.
    """

    def __init__(
        self, projector: Projector, index: TableMeta | None = None, *, compact: bool = False, renormalise: bool = True
    ) -> None:
        self.projector, self.index = projector, index
        self.compact, self.renormalise = compact, renormalise
        self._dim = projector.compact_dim if compact else projector.dim
        if index is None:
            self.cautions: tuple[str, ...] = (
                "nothing is known of the index: make sure that it went through this projector",
            )
            return
        own = TableMeta(encoder=projector.encoder, projector=projector.digest)
        if index.projector != projector.digest:
            raise ProjectorError(_mismatch(index.projector, projector.digest, what="projected query"))
        self.cautions = check_query(index, own)

    def __call__(self, queries: ArrayLike | EmbeddingSet) -> NDArray[np.float32]:
        """Return queries ready for the index, in float32.

        Parameters
        ----------
        queries : (d,) or (n, d) array-like, or EmbeddingSet
            Arrays are taken as raw. An `EmbeddingSet` says what it is: a raw one is projected, one that went through the
            same projector is passed through.

        Returns
        -------
        (d,) or (n, d) float32
            With as many columns as the index has.

        Raises
        ------
        DataError
            Wrong dimension, or NaN or infinity.
        ProjectorError, EncoderError
            An `EmbeddingSet` of another projector or encoder, or a clean one in another form.
        """
        if isinstance(queries, EmbeddingSet):
            return self._of_set(queries)
        array = np.asarray(queries)
        if array.ndim != 1:
            return self.projector.apply(array, compact=self.compact, renormalise=self.renormalise).vectors
        one = self.projector.apply(array[None], compact=self.compact, renormalise=self.renormalise).vectors
        return one.reshape(-1)

    def _of_set(self, queries: EmbeddingSet) -> NDArray[np.float32]:
        if queries.encoder is not None and self.projector.encoder is not None:
            self.projector.check_encoder(queries.encoder)
        done = queries.meta.projector
        if done is None:
            return self(queries.vectors)
        if done != self.projector.digest:
            raise ProjectorError(_mismatch(self.projector.digest, done))
        if queries.dim != self._dim:
            raise ProjectorError(
                f"the queries are clean with {queries.dim} columns, the index holds {self._dim}: one is compact and the "
                "other is not; project the raw queries again"
            )
        return queries.unit() if self.renormalise else np.array(queries.vectors)


def residual(projector: Projector, vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the share of squared length that lies in the removed directions, (n,); for one vector (d,) a number array ().

    Near zero for clean vectors (about 1e-12 in float32, 1e-7 in float16); the share that would be removed for raw ones.
    Clean vectors of an affine map hold a constant there, which is subtracted as far as their scaling allows: do not judge
    those by it. Zero rows count as 0.

    Raises
    ------
    DataError
        Not vectors of the projector's d features; the compact form has no removed directions to look at.
    """
    array = np.asarray(vectors)
    rows = np.asarray(array[None] if array.ndim == 1 else array, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != projector.dim:
        raise DataError(f"the projector is for vectors of {projector.dim} features, got shape {array.shape}")
    total = np.vecdot(rows, rows)
    inside = rows @ projector.basis
    share = np.divide(np.vecdot(inside, inside), total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(share[0] if array.ndim == 1 else share)


def looks_raw(projector: Projector, vectors: ArrayLike) -> bool:
    """Say whether vectors were not put through a projector: by their columns, else by what is left where it removes.

    Parameters
    ----------
    vectors : (d,) or (n, d) array-like
        A few rows are enough. Their median decides.

    Raises
    ------
    DataError
        Neither d nor the compact number of columns.
    ProjectorError
        An affine map: it leaves a constant in the removed directions and cannot be told by them.
    """
    array: NDArray[Any] = np.asarray(vectors)
    if array.ndim in {1, 2} and array.shape[-1] == projector.compact_dim != projector.dim:
        return False
    share = residual(projector, array)
    if projector.mean is not None:
        raise ProjectorError(
            "an affine projector leaves a constant in the removed directions: raw and clean vectors cannot be told apart "
            "by them; go by the metadata (check_query)"
        )
    return bool(np.median(share) > _RAW)


def _mismatch(index: str | None, query: str | None, what: str = "query") -> str:
    if query is None:
        return f"the query is raw and the index is clean (projector {str(index)[:12]}): put the query through it first"
    if index is None:
        return f"the index is raw and the {what} is clean (projector {query[:12]}): search the clean index, or query with raw vectors"
    return f"the index went through projector {index[:12]}, the {what} through {query[:12]}: use the projector of the index"
