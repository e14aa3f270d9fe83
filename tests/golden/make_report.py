"""Write the golden pages of the report: ``PYTHONPATH=src python tests/golden/make_report.py``.

Look at the pages in a browser before committing them; the test only says that something changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "audit"))


def main() -> None:
    from report_cases import golden_cases

    from faceblind.audit.report import render_html

    folder = HERE / "report"
    folder.mkdir(exist_ok=True)
    for name, (record, extras) in golden_cases().items():
        (folder / name).write_text(render_html(record, extras), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
