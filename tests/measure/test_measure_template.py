"""Queries against templates: every pair looked at one by one is the oracle, for the tail and for each draw of people."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_oracle import multiset

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, SubjectBootstrap, det_curve, scan, score_tail, template_tail, threshold_at
from faceblind.measure.blocks import cross_blocks
from faceblind.measure.survivors import Survivors
from faceblind.measure.tail import subject_bins
from strategies import exact_rows


@dataclass(frozen=True)
class Truth:
    mated: list[tuple[float, int]]
    nonmated: list[tuple[float, int, int]]


def brute_force(queries, who, templates, whose) -> Truth:
    names = sorted(set(whose.tolist()))
    code = {name: i for i, name in enumerate(names)}
    scores = queries.astype(np.float64) @ templates.astype(np.float64).T
    mated, nonmated = [], []
    for i, name in enumerate(who.tolist()):
        for j, other in enumerate(whose.tolist()):
            if name == other:
                mated.append((float(np.float32(scores[i, j])), code[name]))
            else:
                nonmated.append((float(np.float32(scores[i, j])), code[name], code[other]))
    nonmated.sort(key=lambda item: -item[0])
    return Truth(mated, nonmated)


@st.composite
def galleries(draw):
    """Rows whose scores are exact in float32, with ties; some people have no query, some several templates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    templates = draw(st.lists(st.integers(1, 3), min_size=2, max_size=6))
    queries = draw(st.lists(st.integers(0, 5), min_size=len(templates), max_size=len(templates)))
    queries[draw(st.integers(0, len(queries) - 1))] += 1
    who = rng.permutation(np.repeat(np.arange(len(queries)), queries))
    whose = rng.permutation(np.repeat(np.arange(len(templates)), templates))
    names = np.array(["d", "a", "f", "b", "e", "c"])
    peak = draw(st.integers(1, 20))
    return exact_rows(rng, who.size, 6, peak=peak), names[who], exact_rows(rng, whose.size, 6, peak=peak), names[whose]


@settings(max_examples=150)
@given(galleries(), st.data())
def test_the_tail_equals_brute_force_whatever_the_blocks_and_ties(gallery, data):
    truth = brute_force(*gallery)
    values = [score for score, _, _ in truth.nonmated]
    asked = data.draw(st.lists(st.sampled_from(sorted({*values, -0.5, 0.0, 0.03, 2.0})), max_size=3))
    far_max = data.draw(st.sampled_from([0.0, 0.1, 1.0]))
    block = data.draw(st.integers(1, 20))
    found = template_tail(*gallery, far_max=far_max, counts_at=asked, block=block, histogram=True)
    assert found.nonmated == len(truth.nonmated)
    assert multiset(found.mated, found.mated_subject) == multiset(*np.array(truth.mated).T)
    head = [item for item in truth.nonmated if item[0] >= found.top[-1]]
    np.testing.assert_array_equal(found.top, np.float32([score for score, _, _ in head]))
    assert multiset(found.top, *found.pairs_of().T) == multiset(*np.array(head).T)
    np.testing.assert_array_equal(
        found.mated_pairs(), np.bincount([c for _, c in truth.mated], minlength=found.subjects)
    )
    taking_part = np.zeros(found.subjects, int)
    by_subject = np.zeros((found.subjects, subject_bins(found.subjects)), int)
    for score, query, template in truth.nonmated:
        place = min(int((np.clip(score, -1, 1) + 1) * 32_768), 65_535) // (65_536 // by_subject.shape[1])
        for code in (query, template):
            taking_part[code] += 1
            by_subject[code, place] += 1
    np.testing.assert_array_equal(found.nonmated_pairs(), taking_part)
    np.testing.assert_array_equal(found.subject_histogram, by_subject)
    assert found.histogram.sum() == found.nonmated
    assert found.paired_subjects == len({c for _, c in truth.mated})
    for threshold in asked:
        t = np.float32(threshold)
        assert found.false_accepts(threshold) == sum(score >= t for score in values)
        assert found.ties(threshold) == sum(score == np.nextafter(t, np.float32(-9)) for score in values)
        assert found.true_accepts(threshold).sum() == sum(score >= t for score, _ in truth.mated)
        assert found.tar(threshold) == pytest.approx(np.mean([score >= t for score, _ in truth.mated]))


def made(seed: int, people: int, queries: int, *, extra: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    count = rng.integers(1, queries + 1, people)
    who = np.repeat(np.arange(people), count)
    traits = rng.standard_normal((people + extra, 12))
    vectors = unit_rows((traits[who] + 1.2 * rng.standard_normal((who.size, 12))).astype(np.float32))
    gallery = unit_rows((traits + 0.6 * rng.standard_normal(traits.shape)).astype(np.float32))
    return vectors, who, gallery, np.arange(people + extra)


def written_out(truth: Truth, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of one draw: each pair as often as the product of the draws of its two people."""
    mated = np.repeat([s for s, _ in truth.mated], [weights[c] for _, c in truth.mated])
    nonmated = np.repeat([s for s, _, _ in truth.nonmated], [weights[a] * weights[b] for _, a, b in truth.nonmated])
    return np.float32(mated), np.float32(nonmated)


@pytest.mark.parametrize(("extra", "far"), [(0, 0.05), (4, 0.05), (4, 0.3), (0, 1e-9)])
def test_every_draw_equals_writing_out_its_pairs(extra, far):
    gallery = made(1, 12, 5, extra=extra)
    tail, truth = template_tail(*gallery, far_max=1.0, histogram=True), brute_force(*gallery)
    bootstrap = SubjectBootstrap.of(tail.subjects, draws=40, rng=np.random.default_rng(2))
    calibrated, frozen = bootstrap.tar_calibrated(tail, far), bootstrap.tar_frozen(tail, 0.2)
    totals = tail.nonmated_drawn(bootstrap.weights.astype(float))
    for weights, total, c, f in zip(bootstrap.weights, totals, calibrated, frozen, strict=True):
        mated, nonmated = written_out(truth, weights)
        assert total == nonmated.size
        allowed = math.floor(far * nonmated.size * (1 + 1e-12))
        rejected = np.sort(nonmated)[::-1][allowed]
        assert c == pytest.approx((mated > rejected).mean(), abs=1e-12)
        assert f == pytest.approx((mated >= np.float32(0.2)).mean(), abs=1e-12)


def test_the_eer_and_the_det_read_templates_too():
    gallery = made(4, 60, 6, extra=5)
    tail, truth = template_tail(*gallery, histogram=True), brute_force(*gallery)
    mated, nonmated = (np.sort([item[0] for item in items]) for items in (truth.mated, truth.nonmated))
    edges = np.linspace(-1, 1, 4001)
    fmr = 1 - np.searchsorted(nonmated, edges) / nonmated.size
    fnmr = np.searchsorted(mated, edges) / mated.size
    expected = fmr[np.argmax(fmr <= fnmr)]
    assert det_curve(tail).eer == pytest.approx(expected, abs=0.005)
    bootstrap = SubjectBootstrap.of(65, draws=200, rng=np.random.default_rng(0))
    assert np.median(bootstrap.eer(tail)) == pytest.approx(expected, abs=0.02)


def test_one_template_of_one_image_is_the_pair_of_images():
    """With single images as templates, the non-mated scores both ways are those of the other protocol."""
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.standard_normal((20, 6)).astype(np.float32))
    both = template_tail(vectors[:10], np.arange(10), vectors[10:], np.arange(10), far_max=1.0)
    whole = score_tail(vectors, np.tile(np.arange(10), 2), far_max=1.0)
    assert both.nonmated == 90
    assert set(both.top.tolist()) <= set(whole.top.tolist())
    np.testing.assert_array_equal(np.sort(both.mated), np.sort(whole.mated))


def test_memory_stays_bounded_and_a_bad_starting_bound_is_noticed(monkeypatch):
    rng = np.random.default_rng(3)
    queries = unit_rows(rng.standard_normal((3000, 16)).astype(np.float32))
    templates = unit_rows(rng.standard_normal((600, 16)).astype(np.float32))
    labels = (np.repeat(np.arange(600), 5), np.arange(600))
    args = (queries, labels[0], templates, labels[1])
    found = template_tail(*args, far_max=1e-4, slack=2)
    assert found.top.size == 2 * (int(1e-4 * found.nonmated) + 1) + 64
    starts: list[float] = []
    run = scan._Scan.run

    def watched(one: scan._Scan, block: int, bound: np.float32) -> Survivors:
        starts.append(float(bound))
        return run(one, block, bound)

    monkeypatch.setattr(scan._Scan, "run", watched)
    monkeypatch.setattr(scan._Scan, "starting_bound", lambda _: np.float32(0.99))
    again = template_tail(*args, far_max=1e-4, slack=2, block=500)
    assert starts == [pytest.approx(0.99), -2.0]
    np.testing.assert_allclose(again.top, found.top, atol=3e-7)  # other blocks round otherwise
    assert again.mated.size == 3000


def test_thresholds_are_set_by_the_same_rule():
    tail = template_tail(*made(5, 30, 4), far_max=0.2)
    threshold = threshold_at(tail.top, tail.nonmated, 0.1)
    assert tail.false_accepts(threshold) <= 0.1 * tail.nonmated < tail.false_accepts(threshold) + tail.ties(threshold)


def test_cross_blocks_are_the_product():
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((n, 4)).astype(np.float32) for n in (7, 5))
    whole = np.full((7, 5), np.nan, np.float32)
    for part in cross_blocks(left, right, block=3):
        assert not part.diagonal
        whole[part.i0 : part.i1, part.j0 - 7 : part.j1 - 7] = part.scores
    np.testing.assert_allclose(whole, left @ right.T, rtol=1e-6)


ROWS = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("queries", "who", "templates", "whose", "message"),
    [
        (ROWS, ["a", "b", "x"], ROWS, ["a", "b", "c"], "1 of 3 query identities have no template, the first is .*x"),
        (ROWS, ["a", "b", "c"], ROWS[:1], ["b"], "templates of at least two identities, got 1"),
        (ROWS[:0], [], ROWS, ["a", "b", "c"], "at least one query, got none"),
        (ROWS[:, :2], ["a", "b", "c"], ROWS, ["a", "b", "c"], "queries have 2 columns and templates 3"),
        (ROWS, ["a", "b"], ROWS, ["a", "b", "c"], r"every query needs one identity, got 3 rows and shape \(2,\)"),
        (ROWS, ["a", "b", "c"], ROWS, ["a"], r"every template needs one identity, got 3 rows and shape \(1,\)"),
        (
            ROWS,
            ["a", "b", "c"],
            np.full((3, 3), np.inf, np.float32),
            ["a", "b", "c"],
            "template 0 holds NaN or infinity",
        ),
        (np.full((3, 3), np.nan, np.float32), ["a", "b", "c"], ROWS, ["a", "b", "c"], "query 0 holds NaN or infinity"),
    ],
)
def test_what_cannot_be_scored_is_refused(queries, who, templates, whose, message):
    with pytest.raises(DataError, match=message):
        template_tail(queries, np.array(who, dtype=str), templates, np.array(whose, dtype=str))


def test_people_of_unequal_size_count_for_fewer():
    tail = template_tail(*made(1, 12, 5, extra=3))
    pairs = tail.images[tail.images > 0]
    assert tail.effective_subjects == pytest.approx(pairs.sum() ** 2 / (pairs**2).sum())
    assert tail.effective_subjects < tail.paired_subjects == 12
    even: ScoreTail = score_tail(np.eye(6, dtype=np.float32), np.repeat(np.arange(3), 2))
    assert even.effective_subjects == pytest.approx(3)
