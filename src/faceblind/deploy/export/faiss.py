"""A projector as faiss transforms: inside an index, so that raw vectors and raw queries pass it on their way in.

What the index stores is clean. The projector stored with it is no secret and needs none: it says which directions were
removed, and what was in them is nowhere in the index. Whoever can see the queries before they enter still sees raw ones.

faiss has no transform for rows with nothing left. See `to_faiss_transforms` for what that means and `rebuild_index` for an
index whose stored vectors come from `Projector.apply` itself.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, MissingExtraError, UsageError
from faceblind.deploy.export.check import Check, check_rows
from faceblind.deploy.export.describe import described, meta_of
from faceblind.deploy.export.faiss_sidecar import Sidecar, write_index
from faceblind.deploy.export.steps import Steps
from faceblind.erase import Projector

if TYPE_CHECKING:
    import faiss

METRICS = ("inner-product", "l2")


def to_faiss_transforms(
    projector: Projector, *, compact: bool = False, renormalise: bool = True
) -> list[faiss.VectorTransform]:
    """Return the projector as a chain of faiss transforms, to be applied in this order.

    The chain equals `Projector.apply` to float32 rounding, for rows between 1e-15 and 1e15 long that the projector leaves
    something of. Of others faiss cannot express the rule, and gives what follows:

    - a row of zeros stays zeros with a linear map; an affine map makes its constant of it, where `apply` gives zeros;
    - of a row with nothing left, rounding is scaled up to unit length when renormalising, where `apply` gives zeros: a
      query of this kind finds arbitrary neighbours instead of none;
    - rows with NaN or infinity are not refused.

    Full form: one (d, d) matrix in memory when r <= d/2, as faiss has no transform that adds the row itself, otherwise
    two of (d, d - r). An affine map begins with a `NormalizationTransform`, as it acts on unit rows.

    Raises
    ------
    MissingExtraError
        faiss is not installed.
    """
    faiss = need_faiss("exporting to faiss")
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    matrices = [steps.first] if steps.second is None else [steps.first, steps.second]
    if steps.residual and steps.second is not None:
        matrices = [np.eye(steps.dim) + steps.first @ steps.second]
    chain: list[Any] = [faiss.NormalizationTransform(steps.dim, 2.0)] if steps.unit_first else []
    for matrix in matrices:
        offset = steps.offset if matrix is matrices[-1] else None
        chain.append(_linear(faiss, matrix, offset))
    if renormalise:
        chain.append(faiss.NormalizationTransform(steps.output_dim, 2.0))
    return chain


def wrap_index(
    projector: Projector,
    index: faiss.Index,
    *,
    compact: bool = False,
    renormalise: bool = True,
    holds_clean: bool = False,
) -> faiss.IndexPreTransform:
    """Put the projector in front of an index: what is added and what is searched may then be raw.

    Parameters
    ----------
    index : faiss.Index
        Of the output's dimension. It is used, not copied.
    holds_clean : bool
        The index holds vectors already, and they went through this projector in this form. Without this, an index that
        holds vectors is refused: they would stay raw.

    Raises
    ------
    DataError
        Another dimension, a metric under which compact vectors are not equivalent, or vectors in the index.
    """
    need_faiss("exporting to faiss")
    import faiss

    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    if index.d != steps.output_dim:
        raise DataError(f"the index is for vectors of {index.d} features, the projector gives {steps.output_dim}")
    if compact and index.metric_type not in {faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2}:
        raise DataError("the compact form keeps dot products and L2 distances only, and the index has another metric")
    if index.ntotal and not holds_clean:
        raise DataError(
            f"the index holds {index.ntotal:,} vectors, which would stay as they are: rebuild it with rebuild_index, "
            "or say holds_clean=True if they went through this projector"
        )
    wrapped = faiss.IndexPreTransform(index)
    for transform in reversed(to_faiss_transforms(projector, compact=compact, renormalise=renormalise)):
        wrapped.prepend_transform(transform)
    return wrapped


def save_faiss(
    projector: Projector,
    path: str | Path,
    *,
    compact: bool = False,
    renormalise: bool = True,
    metric: str = "inner-product",
) -> Check:
    """Write an empty flat index with the projector in front (``faiss.read_index``), and its sidecar ``PATH.json``.

    Raw vectors can be added and searched at once; the transforms alone are its ``chain``. It was read back and compared
    with `Projector.apply` before it gets its name.

    Raises
    ------
    ProjectorError
        The self-check failed.
    UsageError
        No such metric.
    MissingExtraError
        faiss is not installed.
    OutputError
        The place cannot be written.
    """
    faiss = need_faiss("exporting to faiss")
    dim = Steps.of(projector, compact=compact, renormalise=renormalise).output_dim
    empty = faiss.IndexFlat(dim, metric_of(metric))
    index = wrap_index(projector, empty, compact=compact, renormalise=renormalise)
    sidecar = Sidecar(
        meta=meta_of(projector),
        form=described(projector, compact=compact, renormalise=renormalise),
        count=0,
        factory="Flat",
        metric=metric,
        faiss=str(faiss.__version__),
    )
    return write_index(
        index, path, sidecar, lambda again: check_chain(projector, again, compact=compact, renormalise=renormalise)
    )


def check_chain(projector: Projector, index: Any, *, compact: bool, renormalise: bool) -> Check:
    """Compare the transforms in front of an index with `Projector.apply`, on rows that something is left of."""
    import faiss

    def run(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        for at in range(index.chain.size()):
            rows = faiss.downcast_VectorTransform(index.chain.at(at)).apply(np.ascontiguousarray(rows, np.float32))
        return np.asarray(rows)

    return check_rows(
        projector, run, compact=compact, renormalise=renormalise, what="the faiss chain", degenerate=False
    )


def metric_of(name: str) -> int:
    """Return faiss's number of a metric by name; raises `UsageError`."""
    import faiss

    if name not in METRICS:
        raise UsageError(f"metric is one of {', '.join(METRICS)}, got {name!r}")
    return int(faiss.METRIC_INNER_PRODUCT if name == METRICS[0] else faiss.METRIC_L2)


def need_faiss(purpose: str) -> Any:
    """Import faiss, or raise `MissingExtraError`."""
    if find_spec("faiss") is None:
        raise MissingExtraError("faiss-cpu", "faiss", purpose)
    import faiss

    return faiss


def _linear(faiss: Any, matrix: NDArray[np.float64], offset: NDArray[np.float64] | None) -> Any:
    """Make ``x matrix [+ offset]``; faiss keeps the transpose."""
    made = faiss.LinearTransform(matrix.shape[0], matrix.shape[1], offset is not None)
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix.T, np.float32).ravel(), made.A)
    if offset is not None:
        faiss.copy_array_to_vector(np.ascontiguousarray(offset, np.float32), made.b)
    made.is_trained = True
    return made
