"""How unusual a value is against the bulk, when a few values of the bulk are themselves wrong.

The centre is the median and the scale comes from the 16 % or 84 % quantile on the side asked for, so a few per cent of
wrong labels move neither. Tails are Student's: with few values the scale is uncertain, and the tail is then heavier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_ONE_SIGMA, _TWO_SIGMA = (float(stats.norm.cdf(k)) for k in (1, 2))
_LEAST_PER_BIN = 250
_MOST_BINS = 4
_FLOOR = 1e-6
_SCALE_VARIANCE = 2.2
"""Variance of the quantile scale relative to its square, times n, for normal values; one over twice the freedom."""


@dataclass(frozen=True, eq=False)
class Bulk:
    """Centre, scale and degrees of freedom in bins of a size on which the spread depends (images per identity)."""

    side: Literal["low", "high"]
    edges: NDArray[np.float64]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    freedom: NDArray[np.float64]

    @classmethod
    def of(
        cls, values: NDArray[np.float64], sizes: NDArray[Any], side: Literal["low", "high"], *, wide: bool = False
    ) -> Bulk:
        """Describe finite `values` (n,) by bins of `sizes` (n,), at most four and 250 values at least in each.

        With `wide` the scale is the larger of those at one and two sigma, for a tail heavier than normal; then no more than
        one per cent may be wrong, without it a tenth.
        """
        bins = int(np.clip(values.size // _LEAST_PER_BIN, 1, _MOST_BINS))
        edges = np.unique(np.quantile(sizes, np.arange(1, bins) / bins)) if bins > 1 else np.empty(0)
        where = np.searchsorted(edges, sizes, side="right")
        filled = [where == b for b in range(edges.size + 1)]
        # a bin that ties left nearly empty borrows everything
        used = [values[mask] if np.count_nonzero(mask) >= _LEAST_PER_BIN // 2 else values for mask in filled]
        centre = np.array([np.median(v) for v in used])
        sign = 1 if side == "high" else -1
        far = np.array([np.quantile(sign * v, [_ONE_SIGMA, _TWO_SIGMA]) for v in used]) - sign * centre[:, None]
        scale = np.maximum((far / [1, 2]).max(axis=1) if wide else far[:, 0], _FLOOR)
        freedom = np.array([max(v.size / (2 * _SCALE_VARIANCE), 1.0) for v in used])
        return cls(side, edges, centre, scale, freedom)

    def z(self, values: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.float64]:
        """Distance from the centre in scales, positive towards the side asked for."""
        where = np.searchsorted(self.edges, sizes, side="right")
        distance = (values - self.centre[where]) / self.scale[where]
        return np.asarray(distance if self.side == "high" else -distance)

    def p(self, values: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.float64]:
        """Share of the bulk expected at least as far out."""
        where = np.searchsorted(self.edges, sizes, side="right")
        return np.asarray(stats.t.sf(self.z(values, sizes), self.freedom[where]))


def discoveries(p: NDArray[np.float64], tests: int, rate: float) -> NDArray[np.bool_]:
    """Which p-values stand out of `tests` tests when a share `rate` of those listed may be false.

    Benjamini and Hochberg (1995). `p` may hold only the small ones; `tests` counts all that were made.
    """
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= rate * np.arange(1, p.size + 1) / max(tests, 1))
    chosen = np.zeros(p.size, dtype=bool)
    if passed.size:
        chosen[order[: passed[-1] + 1]] = True
    return chosen
