"""The main job on rendered people: photographs -> embeddings -> audit -> fit -> apply -> audit again.

Everything it writes says "synthetic". Nothing here is special: each step calls what the verb of that name calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faceblind._errors import RankError
from faceblind.audit.files import save_audit
from faceblind.audit.plan import AuditPlan, parse_gate
from faceblind.audit.ranks import choose_rank
from faceblind.audit.result import AuditResult
from faceblind.audit.run import run_audit
from faceblind.data.split import IdentitySplit
from faceblind.data.tables import open_table, read_with_findings
from faceblind.deploy.apply import ApplyReport, apply_table
from faceblind.deploy.fit import fit_table
from faceblind.encoders import embed_folder, open_encoder
from faceblind.erase import Projector
from faceblind.faces.synthetic import render_folder

TARGET = "TAR@FAR(1e-2) <= 5%"
Stage = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResult:
    """What the demo made, and where."""

    before: AuditResult
    after: AuditResult
    projector: Projector
    applied: ApplyReport
    rank_note: str
    report: Path
    clean: Path


def run_demo(
    folder: str | Path,
    *,
    people: int = 100,
    images_per_person: int = 10,
    encoder: str = "sscd",
    seed: int = 0,
    workers: int = 2,
    progress: Stage = lambda _what, _done, _of: None,
) -> DemoResult:
    """Run the whole job in a folder; what is already there and whole is not made again."""
    folder = Path(folder)
    photos, table, clean = folder / "photos", folder / "photos.parquet", folder / "clean.parquet"
    render_folder(
        photos,
        people,
        images_per_person,
        seed=seed,
        workers=workers,
        progress=lambda done, of: progress("rendering synthetic people", done, of),
    )
    embed_folder(
        photos,
        open_encoder(encoder),
        table,
        progress=lambda done, of: progress(f"embedding with {encoder}", done, of),
    )
    embeddings, findings = read_with_findings(table)
    plan = AuditPlan(seed=seed)
    split = IdentitySplit.draw(embeddings, seed=seed)

    def audit_into(name: str, projector: Projector | None) -> tuple[AuditResult, Path]:
        run = run_audit(
            embeddings,
            plan=plan,
            split=split,
            projector=projector,
            findings=findings,
            name=table.name,
            progress=lambda what, done, of: progress(f"audit {name}: {what}", done, of),
        )
        return run.result, save_audit(run, embeddings, folder / name, images=photos)

    before, _ = audit_into("before", None)
    try:
        projector = choose_rank(embeddings, split, parse_gate(TARGET), plan, points=6, progress=progress)
        note = f"the smallest rank tried that shows {TARGET} on validation people"
    except RankError:
        fit_people = embeddings.sample[split.rows("fit")].tolist()
        projector = fit_table(open_table(table), samples=fit_people).projector
        note = f"no rank shows {TARGET} on so few validation people; the largest that the fit people support"
    projector.save(folder / "isp.safetensors")
    applied = apply_table(projector, open_table(table), clean)
    after, report = audit_into("after", projector)
    return DemoResult(
        before=before,
        after=after,
        projector=projector,
        applied=applied,
        rank_note=note,
        report=report,
        clean=clean,
    )
