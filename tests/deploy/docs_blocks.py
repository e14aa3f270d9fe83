"""Code blocks of docs/distributed.md, so that tests run the recipes that users read."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


def block(heading: str) -> str:
    """Return the first Python block under the heading that begins with `heading`."""
    found = re.search(rf"^## {re.escape(heading)}\b.*?^```py\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    if found is None:
        raise AssertionError(f"no Python block under {heading!r} in {PAGE.name}")
    return found[1]
