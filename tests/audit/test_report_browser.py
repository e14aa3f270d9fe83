"""The page in a real browser: nothing overflows on a phone, no labels collide, nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from report_cases import degenerate, make_extras
from report_records import make_record

from faceblind.audit.report import render_html

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH")

PHONE, DESKTOP = 390, 1280

# Measures inside a frame of the wanted width: headless windows have a least width of their own.
PROBE = """
<script>
const measure = () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument, width = frame.clientWidth;
  const box = (e) => e.getBoundingClientRect();
  const inScroller = (e) => e.closest(".scroll, .sr, .skip, svg");
  const wide = [...page.querySelectorAll("body *")].filter((e) => !inScroller(e) && box(e).width && (box(e).right > width + 1 || box(e).left < -1));
  const clipped = [], collide = [];
  for (const svg of page.querySelectorAll("svg.plot")) {
    const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent), whole = box(svg);
    for (const t of texts) {
      const b = box(t);
      if (b.left < whole.left - 2 || b.right > whole.right + 2 || b.top < whole.top - 2 || b.bottom > whole.bottom + 2) clipped.push(t.textContent);
    }
    texts.forEach((t, i) => texts.slice(i + 1).forEach((u) => {
      const a = box(t), b = box(u);
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Line boxes are taller than letters: a small overlap in height is only spacing.
      if (x > 1 && y > 0.3 * Math.min(a.height, b.height)) collide.push(t.textContent + " | " + u.textContent);
    }));
  }
  return {
    width: width,
    scroll: page.documentElement.scrollWidth,
    wide: wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 120)),
    clipped: clipped.slice(0, 5),
    collide: collide.slice(0, 5),
    fetched: frame.contentWindow.performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith("data:")),
    pictures: [...page.images].filter((i) => i.src && !i.src.startsWith("data:")).length,
    figures: page.querySelectorAll("svg.plot").length,
    record: JSON.parse(page.getElementById("audit-record").textContent).schema,
  };
};
addEventListener("load", () => {
  let found;
  try { found = measure(); } catch (error) { found = { error: String(error) }; }
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
  document.body.append(out);
});
</script>
"""


def measure(page: str, width: int, folder: Path) -> dict[str, Any]:
    import base64
    from html import escape

    wrapper = folder / "wrapper.html"
    wrapper.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe style="border:0;width:{width}px;height:900px" '
        f'srcdoc="{escape(page)}"></iframe>{PROBE}</body>',
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1400,1000",
            "--dump-dom",
            wrapper.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HOME": str(folder)},
    )
    found = re.search(r'<pre id="found">([^<]+)</pre>', done.stdout)
    if found is None:
        pytest.skip(f"the browser did not answer: {done.stderr[-300:]}")
    answer: dict[str, Any] = json.loads(base64.b64decode(found[1]))
    return answer


PAGES = {
    "full": (make_record(), make_extras()),
    "long names": (degenerate()["long names"], make_extras(hostile="averyveryverylongname" * 20)),
    "tiny": (degenerate()["tiny"], None),
}


@pytest.mark.parametrize(
    ("name", "width"), [("full", PHONE), ("long names", PHONE), ("full", DESKTOP), ("tiny", PHONE)]
)
def test_layout(name: str, width: int, tmp_path: Path) -> None:
    found = measure(render_html(*PAGES[name]), width, tmp_path)
    assert "error" not in found, found
    assert found["width"] == width
    assert found["scroll"] <= width, found["wide"]
    assert not found["wide"]
    assert not found["clipped"]
    assert not found["collide"]
    assert found["fetched"] == []
    assert found["pictures"] == 0
    assert found["figures"] >= 4
    assert found["record"] == "faceblind.audit/1"
