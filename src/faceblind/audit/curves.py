"""The error trade-off of an attacker over all thresholds, and the measures that need more than one of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.audit.attacks import Attack
from faceblind.audit.entries import Curve, Extrapolated, Separation
from faceblind.audit.evaluate import tail_of, tune
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Release
from faceblind.measure import (
    ScoreTail,
    SubjectBootstrap,
    det_curve,
    extrapolate_tar,
    grade_of,
    partial_auc,
    unlinkability,
)

PAUC_FAR = 1e-3
PERMUTATIONS = 100
_IMAGES = 3_000  # up to here identities are permuted over images, which costs a product of all pairs each time


def curve_of(attack: Attack, release: Release, plan: AuditPlan, bootstrap: SubjectBootstrap) -> Curve:
    """Draw the DET curve of an attacker's first seed on test people, with pointwise limits, the EER, pAUC and D_sys."""
    best, _ = tune(attack, attack.train(release, 0, plan), release.validation, 0, plan)
    tail = tail_of(attack, best, release.test, 0, plan, histogram=True)
    curve = det_curve(tail)
    low, high = bootstrap.fnmr_band(tail, curve.thresholds)
    eer_low, eer_high = (float(q) for q in np.quantile(bootstrap.eer(tail), [0.025, 0.975]))
    few = attack.protocol == "pairs" and release.test.identity.size <= _IMAGES
    rows = (best.map(release.test.vectors), release.test.identity) if few else None
    return Curve(
        release=release.name,
        rank=release.rank,
        attacker=attack.name,
        trained_on=attack.trained_on,
        k=attack.k,
        far=tuple(curve.far.tolist()),
        fnmr=tuple(curve.fnmr.tolist()),
        fnmr_low=tuple(low.tolist()),
        fnmr_high=tuple(high.tolist()),
        eer=curve.eer,
        eer_low=min(eer_low, curve.eer),
        eer_high=max(eer_high, curve.eer),
        far_floor=min(1.0, 30 / tail.nonmated),
        separation=_separation(tail, rows, plan, bootstrap),
    )


def _separation(
    tail: ScoreTail,
    rows: tuple[NDArray[np.float32], NDArray[np.str_]] | None,
    plan: AuditPlan,
    bootstrap: SubjectBootstrap,
) -> Separation:
    area = partial_auc(tail, min(PAUC_FAR, max(plan.fars)), bootstrap=bootstrap)
    rng = np.random.default_rng([plan.seed, 0xD5])
    vectors, identity = rows or (None, None)
    linked = unlinkability(tail, rng=rng, permutations=PERMUTATIONS, vectors=vectors, identity=identity)
    return Separation(
        pauc=area.value,
        pauc_low=area.low if area.low is not None else 0.0,
        pauc_high=area.high if area.high is not None else 1.0,
        pauc_far=area.far_max,
        pauc_grade=area.grade,  # type: ignore[arg-type]  # one of the three
        dsys=linked.value,
        dsys_null=linked.null_mean,
        dsys_excess=linked.excess,
        dsys_p=linked.p_value,
        extrapolated=tuple(_extrapolated(tail, far, plan, bootstrap) for far in plan.extrapolate),
    )


def _extrapolated(tail: ScoreTail, far: float, plan: AuditPlan, bootstrap: SubjectBootstrap) -> Extrapolated:
    if grade_of(far, tail.nonmated) == "supported":
        said = f"{tail.nonmated:,} pairs support this rate: it is measured, not extrapolated (ask for it with --fars)"
        return Extrapolated(far_target=far, tar=None, tar_low=None, tar_high=None, refused=said)
    found = extrapolate_tar(tail, far, bootstrap=bootstrap, rng=np.random.default_rng([plan.seed, 0xE7]))
    return Extrapolated(
        far_target=far, tar=found.tar, tar_low=found.tar_low, tar_high=found.tar_high, refused=found.refusal
    )
