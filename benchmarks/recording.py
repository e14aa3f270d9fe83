"""Put figures between their markers in RESULTS.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"


def record(section: str, text: str) -> None:
    """Replace what stands between ``<!-- SECTION: begin -->`` and ``<!-- SECTION: end -->``."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, rest = RESULTS.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    RESULTS.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def times(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> list[tuple[float, float]]:
    """Time two variants in turn, after a run of each that does not count; seconds."""
    ours(), theirs()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        found.append((middle - start, time.perf_counter() - middle))
    return found
