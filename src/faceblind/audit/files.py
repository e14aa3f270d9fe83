"""The files of an audit: audit.json (the record), report.html (a view of it), split.csv (the manifest)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from faceblind._files import write_text
from faceblind.audit.report import build_extras, render_html
from faceblind.audit.run import AuditRun
from faceblind.data.embeddings import EmbeddingSet


def save_audit(run: AuditRun, embeddings: EmbeddingSet, folder: str | Path, *, images: Path | None = None) -> Path:
    """Write the three files into a folder, each atomically, and return the path of the report.

    Parameters
    ----------
    images : Path, optional
        Folder that the sample keys are relative to; shows nearest neighbours before and after.
    """
    folder = Path(folder)
    test = embeddings.take(run.split.rows("test"))
    erased = replace(test, vectors=run.projector.apply(test.vectors).vectors)
    extras = build_extras(test, erased, images=images, seed=int(run.result.provenance["seed"]))
    html = render_html(run.result.to_dict(), extras)
    run.result.save(folder / "audit.json")
    run.split.save(folder / "split.csv", embeddings)
    write_text(folder / "report.html", html)
    return folder / "report.html"
