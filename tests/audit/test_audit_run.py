"""The audit end to end on planted people, against brute force and known truths."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import faceblind as fb
from faceblind.audit.result import audit_schema
from faceblind.audit.run import run_audit
from faceblind.erase import RandomEraser
from faceblind.erase.methods import METHODS
from strategies import planted

QUICK = fb.AuditPlan(
    fars=(1e-1, 1e-2, 1e-3),
    ks=(1, 4),
    attackers=("cosine", "class-mean", "ridge", "wccn"),
    attacker_seeds=2,
    draws=200,
    planted=(0.05, 0.6),
    rank_points=3,
)

SHORT = ("cosine", "ridge")


def table(seed=3, *, people=60, images=6, **kwargs):
    made = planted(seed, people=people, images=images, **({"rank": 6, "strength": 0.5, "noise": 0.2} | kwargs))
    return fb.EmbeddingSet.of(made.vectors, made.identity), made


@pytest.fixture(scope="module")
def run():
    return run_audit(table()[0], plan=QUICK)


def rows_of(result, **wanted):
    return [r for r in result.rows if all(getattr(r, key) == value for key, value in wanted.items())]


def test_record_matches_its_schema_and_survives_json(run):
    record = json.loads(run.result.to_json())
    jsonschema.validate(record, audit_schema())
    assert record["schema"] == "faceblind.audit/1"


def test_rows_cover_every_release_attacker_seed_calibration_and_far(run):
    seen = {(r.release, r.attacker, r.trained_on, r.k, r.seed, r.calibration, r.far_target) for r in run.result.rows}
    attackers = [("cosine", None, None, None), ("wccn", "attack", None, None), ("wccn", "fit", None, None)]
    attackers += [("class-mean", None, k, s) for k, s in itertools.product((1, 4), (0, 1))]
    attackers += [("ridge", t, k, s) for t, k, s in itertools.product(("attack", "fit"), (1, 4), (0, 1))]
    releases = ("raw", "isp", "random", "pca", "permuted")
    expected = {
        (release, *attacker, calibration, far)
        for release, attacker, calibration, far in itertools.product(
            releases, attackers, ("validation", "test"), (1e-1, 1e-2, 1e-3)
        )
    }
    assert seen == expected
    assert len(run.result.rows) == len(expected)


def brute_force(vectors, identity):
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    scores = unit @ unit.T
    upper = np.triu(np.ones(scores.shape, bool), 1)
    same = identity[:, None] == identity[None, :]
    return scores[upper & same], np.sort(scores[upper & ~same])[::-1]


@pytest.mark.parametrize("far", [1e-1, 1e-2])
def test_cosine_rows_equal_brute_force_over_all_pairs(run, far):
    people, _ = table()
    parts = {}
    for name in ("validation", "test"):
        rows = run.split.rows(name)
        parts[name] = brute_force(people.vectors[rows], people.identity[rows])
    mated, nonmated = parts["test"]
    for calibration in ("validation", "test"):
        (row,) = rows_of(run.result, release="raw", attacker="cosine", calibration=calibration, far_target=far)
        reference = parts[calibration][1]
        highest_rejected = reference[int(np.floor(far * reference.size))]
        assert row.nonmated == nonmated.size
        assert row.mated == mated.size
        assert row.true_accepts == np.count_nonzero(mated > highest_rejected)
        assert row.false_accepts == np.count_nonzero(nonmated > highest_rejected)
        assert row.tar == pytest.approx(row.true_accepts / row.mated)
        assert row.far_achieved == pytest.approx(row.false_accepts / row.nonmated)
    assert row.far_achieved <= far  # calibrated on test itself: at most


def test_splits_share_no_identity_and_use_every_usable_row(run):
    people, _ = table()
    parts = {name: set(people.identity[run.split.rows(name)]) for name in ("fit", "attack", "validation", "test")}
    for a, b in itertools.combinations(parts, 2):
        assert not parts[a] & parts[b]
    assert set(run.split.part) == {"fit", "attack", "validation", "test"}


def test_points_that_the_data_cannot_support_say_so(run):
    for row in run.result.rows:
        allowed = min(row.nonmated, 1e9) * row.far_target
        if row.far_target == 1e-3:
            assert allowed < 30
            assert row.grade != "supported"
        if row.grade == "unsupported":
            assert row.tar_low == 0
            assert row.tar_high >= row.tar


def test_an_unsupported_point_is_bounded_by_the_smallest_supported_far():
    people, _ = table(people=24, images=4)
    plan = fb.AuditPlan(
        attackers=SHORT, fars=(1e-1, 1e-5), ks=(1,), attacker_seeds=1, draws=200, planted=(), controls=()
    )
    result = fb.audit(people, plan=plan)
    (low,) = rows_of(result, release="raw", attacker="cosine", calibration="test", far_target=1e-5)
    (high,) = rows_of(result, release="raw", attacker="cosine", calibration="test", far_target=1e-1)
    assert low.grade == "unsupported"
    assert low.tar_high >= high.tar_low


def test_planted_identity_is_seen_and_erased_and_controls_do_not_erase_it(run):
    def tar(release):
        return max(s.tar for s in run.result.summary if s.release == release and s.far_target == 1e-2)

    assert tar("raw") > 0.5
    assert tar("isp") < 0.15
    assert tar("random") > 3 * tar("isp")


def test_the_leak_planted_for_power_is_caught_when_strong_and_power_is_monotone_enough(run):
    power = run.result.power
    assert power is not None
    strong = max(power.points, key=lambda p: p.strength)
    assert strong.caught
    assert strong.tar_low > power.unplanted_tar_high or strong.tar > power.unplanted_tar
    assert power.smallest_caught in {p.strength for p in power.points}


def test_no_identity_at_all_reads_at_chance_and_plants_are_not_hallucinated():
    rng = np.random.default_rng(0)
    people = fb.EmbeddingSet.of(rng.standard_normal((480, 24)), np.repeat(np.arange(80), 6))
    result = fb.audit(
        people,
        plan=fb.AuditPlan(
            attackers=SHORT, fars=(1e-1, 1e-2), ks=(4,), attacker_seeds=2, draws=200, planted=(1e-6,), rank=5
        ),
    )
    for s in result.summary:
        assert s.tar < 3 * s.far_target + 0.02
    assert result.power is not None
    assert result.power.smallest_caught is None
    assert result.verdict.level == "inconclusive"  # an audit that misses its plant says nothing


def test_same_seed_same_bytes_and_another_seed_another_split():
    people, _ = table(people=24, images=4)
    plan = fb.AuditPlan(
        attackers=SHORT, fars=(1e-1,), ks=(1,), attacker_seeds=1, draws=100, planted=(0.3,), rank_points=2
    )
    first, second = fb.audit(people, plan=plan).to_json(), fb.audit(people, plan=plan).to_json()
    assert first == second
    other = run_audit(
        people,
        plan=fb.AuditPlan(seed=1, attackers=SHORT, fars=(1e-1,), ks=(1,), attacker_seeds=1, draws=100, planted=()),
    )
    assert not np.array_equal(other.split.part, run_audit(people, plan=plan).split.part)


def test_row_order_of_the_table_does_not_change_counts():
    people, _ = table(people=24, images=4)
    plan = fb.AuditPlan(attackers=SHORT, fars=(1e-1,), ks=(1,), attacker_seeds=1, draws=100, planted=(), controls=())
    order = np.random.default_rng(1).permutation(len(people))
    shuffled = fb.EmbeddingSet.of(people.vectors[order], people.identity[order], sample=people.sample[order])
    a, b = fb.audit(people, plan=plan), fb.audit(shuffled, plan=plan)
    for x, y in zip(rows_of(a, attacker="cosine"), rows_of(b, attacker="cosine"), strict=True):
        assert (x.true_accepts, x.false_accepts, x.mated, x.nonmated) == (
            y.true_accepts,
            y.false_accepts,
            y.mated,
            y.nonmated,
        )


def test_one_duplicate_under_two_names_forbids_a_conclusion():
    people, _ = table()
    first, second = (np.flatnonzero(people.identity == name)[0] for name in np.unique(people.identity)[:2])
    vectors = people.vectors.copy()
    vectors[second] = vectors[first]
    result = fb.audit(fb.EmbeddingSet.of(vectors, people.identity), plan=QUICK)
    assert result.verdict.level == "inconclusive"
    assert result.hygiene[0].kind == "duplicate_across_identities"
    assert str(people.sample[first]) in result.hygiene[0].examples[0]
    with pytest.raises(fb.FaceblindError, match="duplicate_across_identities"):
        fb.audit(fb.EmbeddingSet.of(vectors, people.identity), plan=QUICK, strict=True)


def test_a_projector_that_saw_the_test_people_is_found_out():
    people, _ = table()
    cheat = fb.ISP(5).fit(people.vectors, people.identity).projector_
    result = fb.audit(people, plan=QUICK, projector=cheat)
    assert "projector_saw_test_people" in {f.kind for f in result.hygiene}
    assert result.verdict.level == "inconclusive"


def test_a_projector_fitted_on_the_fit_people_is_recognised_and_gives_the_same_figures():
    people, _ = table()
    run = run_audit(people, plan=QUICK)
    fit = people.take(run.split.rows("fit"))
    own = fb.ISP(run.projector.rank).fit(fit.vectors, fit.identity).projector_
    result = fb.audit(people, plan=QUICK, projector=own)
    assert "projector_fitted_on_fit_people" in {f.kind for f in result.hygiene}
    assert result.rank_curve
    assert rows_of(result, release="isp") == rows_of(run.result, release="isp")


def test_rank_curve_starts_raw_and_costs_energy_as_rank_grows(run):
    points = run.result.rank_curve
    assert points[0].rank == 0
    assert points[0].energy_kept == 1
    assert points[0].neighbour_overlap == 1
    kept = [p.energy_kept for p in points]
    assert kept == sorted(kept, reverse=True)
    assert points[-1].tar < points[0].tar


def test_erasers_stand_side_by_side_at_one_rank_with_paired_comparisons():
    people, _ = table(people=80)
    plan = replace(
        QUICK, attackers=SHORT, compare=METHODS, controls=("random",), planted=(), rank_points=1, rank=6, draws=1000
    )
    result = fb.audit(people, plan=plan)
    releases = {s.release: s.rank for s in result.summary}
    assert set(releases) == {"raw", "random", *METHODS}
    assert {rank for name, rank in releases.items() if name != "raw"} == {6}
    shown = {(c.release, c.against): c for c in result.comparisons if c.far_target == 1e-2}
    assert shown["isp", "raw"].leaks_less
    assert shown["isp", "random"].leaks_less
    assert shown["leace", "raw"].high < 0  # its family is larger, so its corrected p-value is
    assert shown["leace", "raw"].p_adjusted > shown["isp", "raw"].p_adjusted
    assert not shown["isp", "sal"].leaks_less  # balanced people: the same subspace
    assert shown["isp", "sal"].difference == pytest.approx(0, abs=1e-12)
    jsonschema.validate(json.loads(result.to_json()), audit_schema())


def test_every_eraser_can_be_the_audited_one():
    people, _ = table(people=40, images=5)
    plan = fb.AuditPlan(fars=(1e-1,), attackers=("cosine",), controls=(), planted=(), draws=100, rank_points=1, rank=5)
    for method in METHODS:
        run = run_audit(people, plan=replace(plan, eraser=method))
        assert run.projector.method == method
        assert run.projector.fit_identities == 12
        assert run.result.worst_attacker(release=method, far_target=1e-1).rank == run.projector.rank
        assert bool(run.result.rank_curve) is (method not in ("inlp", "rlace"))


def test_the_bound_for_all_attacks_is_never_under_that_of_the_worst(run):
    for worst in run.result.worst:
        top = run.result.worst_attacker(release=worst.release, far_target=worst.far_target)
        assert (worst.attacker, worst.k, worst.trained_on) == (top.attacker, top.k, top.trained_on)
        assert worst.bound >= top.tar_high
        assert worst.attackers >= 2


def test_a_plan_survives_its_record(run):
    plan = fb.AuditPlan.from_dict(json.loads(run.result.to_json())["provenance"]["plan"])
    assert plan == replace(QUICK, fars=QUICK.all_fars())
    with pytest.raises(fb.UsageError, match="unknown settings of an audit plan mood"):
        fb.AuditPlan.from_dict({"mood": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attackers": ("cosine", "psychic")}, "unknown attackers psychic; known are best-effort"),
        ({"eraser": "rubber"}, "unknown erasers rubber"),
        ({"compare": ("isp", "bleach")}, "unknown erasers bleach"),
        ({"extrapolate": (0.0,)}, "between 0 and 1"),
        ({"draws": 10**7}, "up to 1,000 attacker seeds and a million draws"),
        ({"compare": METHODS, "draws": 200}, "14 comparisons of releases need at least 560 bootstrap draws"),
    ],
)
def test_unknown_names_in_a_plan_are_refused(change, message):
    with pytest.raises(fb.UsageError, match=message):
        fb.AuditPlan(**change)


def test_a_projector_called_like_a_control_does_not_take_its_place():
    people, _ = table(people=40, images=5)
    plan = fb.AuditPlan(fars=(1e-1,), attackers=("cosine",), planted=(), draws=100, rank_points=1)
    random = RandomEraser(5, rng=np.random.default_rng(0)).fit(people.vectors).projector_
    result = fb.audit(people, plan=plan, projector=random)
    assert [s.release for s in result.summary if s.calibration == "test"] == [
        "raw",
        "erased",
        "random",
        "pca",
        "permuted",
    ]
    assert {c.release for c in result.comparisons} == {"erased"}


def test_cosine_is_always_among_the_attackers():
    assert fb.AuditPlan(attackers=("mlp",)).attackers == ("cosine", "mlp")


def test_extrapolated_figures_are_labelled_and_refused_where_they_do_not_fit(run):
    people, _ = table()
    plan = replace(QUICK, attackers=("cosine",), controls=(), planted=(), rank_points=1, extrapolate=(1e-4, 1e-9))
    result = fb.audit(people, plan=plan)
    for curve in result.curves:
        near, far = curve.separation.extrapolated
        assert (near.tar is None) is (near.refused is not None)
        assert far.tar is None
        assert "below" in far.refused or far.refused
    assert all(curve.separation.extrapolated == () for curve in run.result.curves)


def test_planted_subspace_energy_is_accounted_for_exactly():
    people, made = table()
    run = run_audit(people, plan=QUICK)
    test = people.take(run.split.rows("test")).unit().astype(np.float64)
    removed = np.einsum("ij,ij->i", test @ run.projector.basis, test @ run.projector.basis)
    (isp,) = [u for u in run.result.utility if u.release == "isp"]
    assert isp.energy_kept == pytest.approx(1 - removed.mean(), abs=1e-5)
    assert made.subspace.shape == (32, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"identity": ["one"] * 60}, "at least 8 identities"),
        ({"identity": [f"p{i // 10}" for i in range(60)]}, "at least 8 identities"),
        ({"identity": [f"p{i}" for i in range(60)]}, "the table has 0 of 60"),
    ],
)
def test_too_few_identities_are_refused_with_the_numbers(change, message):
    vectors = np.random.default_rng(0).standard_normal((60, 8))
    with pytest.raises(fb.SplitError, match=message):
        fb.audit(fb.EmbeddingSet.of(vectors, change["identity"]))


def test_a_rank_that_the_fit_people_do_not_support_is_refused_with_the_most_they_do():
    people, _ = table(people=24, images=4)
    with pytest.raises(
        fb.RankError, match=r"rank 30 is too large: 7 identities in 32 dimensions support at most rank 6"
    ):
        fb.audit(people, plan=fb.AuditPlan(rank=30))


def test_identities_are_required():
    with pytest.raises(fb.DataError, match="identity for every row"):
        fb.audit(fb.EmbeddingSet.of(np.eye(4)))


def test_a_map_that_removes_all_there_is_is_an_error_and_not_a_success():
    made = planted(3, people=60, images=6, rank=6, strength=0.5, noise=0.2)
    flat = made.vectors @ np.linalg.qr(np.random.default_rng(0).standard_normal((32, 5)))[0]  # only five dimensions
    wide = np.hstack([flat, np.zeros((flat.shape[0], 27), np.float32)])
    result = fb.audit(fb.EmbeddingSet.of(wide, made.identity), plan=QUICK)
    assert "nothing_left" in {f.kind for f in result.hygiene}
    assert result.verdict.level == "inconclusive"
    jsonschema.validate(result.to_dict(), audit_schema())
