"""Put figures between their markers in RESULTS.md."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"


def record(section: str, text: str) -> None:
    """Replace what stands between ``<!-- SECTION: begin -->`` and ``<!-- SECTION: end -->``."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, rest = RESULTS.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    RESULTS.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
