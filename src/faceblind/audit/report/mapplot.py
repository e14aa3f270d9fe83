"""Two-dimensional maps of the vectors: a few people in colour and shape, everyone else grey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from faceblind.audit.report import svg, text
from faceblind.audit.report.extras import Map
from faceblind.audit.report.styles import MARKERS, release_name

HIGHLIGHTED: Final = len(MARKERS)
"""How many people are picked out."""

_SIDE: Final = 400.0
_EDGE: Final = 12.0


def picked_out(maps: Sequence[Map]) -> list[str]:
    """Return the identities to highlight: most images on the first map, ties by name; the same on every map."""
    if not maps:
        return []
    counts = Counter(str(name) for name in maps[0].identity)
    return sorted(counts, key=lambda name: (-counts[name], name))[:HIGHLIGHTED]


def map_figure(item: Map, *, picked: Sequence[str], key: str) -> Markup:
    """Draw one map on a square without ticks: its axes have no unit.

    Parameters
    ----------
    item
        Coordinates and identities.
    picked
        The identities to highlight, in the order of the markers.
    key
        Identifier, unique on the page.
    """
    xy = np.asarray(item.xy, dtype=np.float64)
    low, high = xy.min(axis=0), xy.max(axis=0)
    # One scale for both axes, or distances would be stretched.
    span = float((high - low).max()) or 1.0
    centre = (low + high) / 2
    at = (xy - centre) / span * (_SIDE - 2 * _EDGE) * np.array([1.0, -1.0]) + _SIDE / 2
    names = np.asarray(item.identity)
    rest = ~np.isin(names, list(picked))
    parts = [svg.dots(((float(x), float(y)) for x, y in at[rest]), "dot")]
    for i, name in enumerate(picked):
        marks = [svg.marker(MARKERS[i], float(x), float(y), 9, f"mark c-m{i + 1}") for x, y in at[names == name]]
        parts.append(svg.group(*marks, title=text.short(name, 60)))
    release = release_name(item.release)
    return svg.figure(
        key,
        _SIDE,
        _SIDE + 18,
        f"{item.method} map, {release}",
        f"{text.plural(len(names), 'image')} of {text.plural(int(np.unique(names).size), 'person', 'people')}; "
        f"{len(picked)} people are highlighted.",
        svg.rect(0.5, 0.5, _SIDE - 1, _SIDE - 1, "frame"),
        *parts,
        svg.label(
            _SIDE / 2, _SIDE + 14, f"{item.method} 1 across, {item.method} 2 up; no unit", "note", anchor="middle"
        ),
    )
