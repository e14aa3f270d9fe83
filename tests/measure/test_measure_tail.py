from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_oracle import all_pairs, multiset

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, scan, score_tail, threshold_at
from faceblind.measure.blocks import Block
from faceblind.measure.survivors import Survivors
from faceblind.measure.tail import subject_bins
from strategies import exact_rows, exact_tables, labels_of, unit_gauss

FIELDS = ("mated", "mated_subject", "top", "nonmated", "images", "histogram", "subject_histogram")


def check_against_brute_force(found: ScoreTail, vectors: np.ndarray, labels: np.ndarray) -> None:
    truth = all_pairs(vectors, labels)
    assert found.nonmated == truth.nonmated.size
    np.testing.assert_array_equal(found.images, truth.images)
    assert multiset(found.mated, found.mated_subject) == multiset(truth.mated, truth.mated_subject)
    np.testing.assert_array_equal(found.mated_pairs(), np.bincount(truth.mated_subject, minlength=found.subjects))
    # The top is the head of all scores, complete down to its last value, with the right two people at each score.
    head = truth.nonmated >= found.top[-1]
    np.testing.assert_array_equal(found.top, truth.nonmated[head])
    assert multiset(found.top, *np.sort(found.pairs_of(), axis=1).T) == multiset(
        truth.nonmated[head], *truth.nonmated_pair[head].T
    )


@settings(max_examples=150)
@given(exact_tables(), st.data())
def test_the_tail_equals_brute_force_whatever_the_blocks_layout_and_ties(table, data):
    vectors, labels = table
    n = labels.size
    truth = all_pairs(vectors, labels)
    asked = data.draw(st.lists(st.sampled_from(sorted({*truth.nonmated.tolist(), -0.5, 0.0, 0.03, 2.0})), max_size=4))
    far_max = data.draw(st.sampled_from([0.0, 1e-3, 0.1, 1.0]))
    found = score_tail(
        vectors, labels, block=data.draw(st.integers(1, n + 2)), far_max=far_max, counts_at=asked, histogram=True
    )
    check_against_brute_force(found, vectors, labels)
    assert found.top.size >= min(found.nonmated, 2 * max(far_max * found.nonmated, 30))
    for threshold in asked:
        below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
        assert found.false_accepts(threshold) == truth.count(threshold)
        assert found.ties(threshold) == sum(truth.nonmated == below)
        expected = np.zeros(found.subjects, int)
        for score, subject in zip(truth.mated, truth.mated_subject, strict=True):
            expected[subject] += score >= np.float32(threshold)
        np.testing.assert_array_equal(found.true_accepts(threshold), expected)
    place = np.minimum(((np.clip(truth.nonmated.astype(np.float64), -1, 1) + 1) * 32_768).astype(int), 65_535)
    np.testing.assert_array_equal(found.histogram, np.bincount(place, minlength=65_536))
    expected = np.zeros((found.subjects, subject_bins(found.subjects)), int)
    for bin_, pair in zip(place // (65_536 // expected.shape[1]), truth.nonmated_pair, strict=True):
        expected[pair, bin_] += 1
    np.testing.assert_array_equal(found.subject_histogram, expected)


@pytest.mark.parametrize("block", [1, 3, 7, 64])
def test_one_huge_identity_that_straddles_many_blocks_among_single_images(block):
    labels = labels_of([1, 1, 40, 1, 2, 1], "shuffled", np.random.default_rng(1))
    vectors = exact_rows(np.random.default_rng(2), labels.size, 8, peak=50)
    found = score_tail(vectors, labels, block=block, far_max=1.0, histogram=True)
    check_against_brute_force(found, vectors, labels)
    assert found.mated.size == 40 * 39 // 2 + 1
    assert found.top.size == found.nonmated == found.histogram.sum()
    np.testing.assert_array_equal(found.subject_histogram.sum(axis=1), found.images * (46 - found.images))


@pytest.mark.parametrize("labels", [[7, 7, 3, 3], [True, True, False, False], np.array(["b", "b", "a", "a"], object)])
def test_labels_of_any_type_are_coded_in_sorted_order(labels):
    vectors = np.array([[1, 0], [1, 0], [0.5, 0], [0, 0.5]], np.float32)
    found = score_tail(vectors, np.asarray(labels))
    assert multiset(found.mated, found.mated_subject) == {(1.0, 1): 1, (0.0, 0): 1}


@pytest.fixture(scope="module")
def crowd() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return unit_gauss(rng, 1500, 24), rng.permutation(np.repeat(np.arange(300), 5))


def test_only_as_many_scores_are_kept_as_the_far_needs(crowd):
    vectors, labels = crowd
    found = score_tail(vectors, labels, far_max=1e-3, slack=2, block=256)
    assert found.nonmated == 1500 * 1499 // 2 - 300 * 10
    assert found.top.size == 2 * (int(1e-3 * found.nonmated) + 1) + 64  # no ties in these scores
    full = score_tail(vectors, labels, far_max=1.0, block=256)
    np.testing.assert_array_equal(found.top, full.top[: found.top.size])
    assert (np.diff(full.top) <= 0).all()


def test_memory_stays_bounded_when_the_starting_bound_is_of_no_use(crowd, monkeypatch):
    vectors, labels = crowd
    expected = score_tail(vectors, labels, far_max=1e-4, block=256)
    seen = []
    prune = Survivors._prune

    def watched(top: Survivors) -> None:
        seen.append(top.kept)
        prune(top)

    monkeypatch.setattr(scan._Scan, "starting_bound", lambda _: np.float32(-2.0))
    monkeypatch.setattr(Survivors, "_prune", watched)
    found = score_tail(vectors, labels, far_max=1e-4, block=256)
    np.testing.assert_array_equal(found.top, expected.top)
    assert seen  # pruned on the way, not only at the end
    assert max(seen) <= 2 * found.top.size + 65_536 + 256 * 256 < found.nonmated / 8


def nonmated_scores(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """All of them, in descending order."""
    wide = vectors.astype(np.float64)
    upper = np.triu(labels[:, None] != labels[None, :], 1)
    return np.sort((wide @ wide.T)[upper])[::-1].astype(np.float32)


@pytest.mark.parametrize("processors", [1, 3, 64])
def test_large_blocks_are_searched_in_slices_with_the_same_result(processors, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(processors), raising=False)
    vectors = exact_rows(np.random.default_rng(6), 1100, 8, peak=20)
    labels = np.random.default_rng(7).permutation(np.repeat(np.arange(275), 4))
    found = score_tail(vectors, labels, far_max=1e-3)  # one block of 1.2 million scores
    few = score_tail(vectors, labels, far_max=1e-3, block=300)
    truth = nonmated_scores(vectors, labels)
    np.testing.assert_array_equal(found.top, truth[truth >= found.top[-1]])
    assert multiset(found.top, *np.sort(found.pairs_of(), 1).T) == multiset(few.top, *np.sort(few.pairs_of(), 1).T)
    assert found.top.size >= 2e-3 * truth.size


def test_negative_scores_and_zeros_of_either_sign_are_put_in_order():
    values = np.array([0.0, -0.5, 0.25, -0.0, 1.0, -1.0, 1e-40, -1e-40, 0.25], np.float32)
    top = Survivors(need=9, bound=np.float32(-2))
    top.offer(Block(0, 1, 1, 10, values[None, :]))
    found, places = top.finish()
    first, second = places.rows(slice(None))
    np.testing.assert_array_equal(found, np.sort(values)[::-1])
    np.testing.assert_array_equal(values[second - 1], found)
    assert not first.any()
    assert second.tolist()[:3] == [5, 3, 9]  # the earlier of equals first


def test_ties_at_the_running_bound_are_all_kept(monkeypatch):
    """Pruned in the middle of a scan with six distinct scores: what comes later at the bound itself belongs to the tie."""
    monkeypatch.setattr(scan._Scan, "starting_bound", lambda _: np.float32(-2.0))
    vectors = exact_rows(np.random.default_rng(5), 520, 4, peak=1)
    labels = np.repeat(np.arange(130), 4)
    found = score_tail(vectors, labels, far_max=1e-3, block=64)
    assert 2 * found.top.size + 65_536 < found.nonmated  # it was pruned
    truth = nonmated_scores(vectors, labels)
    np.testing.assert_array_equal(found.top, truth[truth >= found.top[-1]])


@pytest.mark.parametrize("block", [500, 2048])
def test_a_starting_bound_that_was_too_high_is_noticed_and_the_scan_repeated(block, monkeypatch):
    """The evenly spaced rows of the sample are made alike, so that their scores are far above all others."""
    rng = np.random.default_rng(4)
    vectors = exact_rows(rng, 1280, 32, peak=2)
    sampled = np.unique(np.linspace(0, 1279, 320).astype(int))
    vectors[sampled, 0] = 0.5
    labels = np.repeat(np.arange(640), 2)
    runs = []
    run = scan._Scan.run

    def watched(one: scan._Scan, block: int, bound: np.float32) -> Survivors:
        runs.append(float(bound))
        return run(one, block, bound)

    monkeypatch.setattr(scan._Scan, "run", watched)
    found = score_tail(vectors, labels, far_max=0.1, slack=2, counts_at=[0.2], histogram=True, block=block)
    assert len(runs) == 2
    assert runs[0] > 0.2
    assert runs[1] == -2.0
    nonmated = nonmated_scores(vectors, labels)
    np.testing.assert_array_equal(found.top, nonmated[: found.top.size])
    assert found.top.size > 2 * 0.1 * found.nonmated
    assert found.false_accepts(0.2) == (nonmated >= np.float32(0.2)).sum()  # once, not once a run
    assert found.histogram.sum() == found.nonmated
    assert found.mated.size == 640


def test_a_score_just_under_a_bin_edge_is_counted_under_it():
    """In float32, -2**-26 + 1 would be 1 and land in the bin above zero."""
    vectors = np.array([[1, 0], [-(2.0**-26), 0.5], [0, 0]], np.float32)
    found = score_tail(vectors, np.array(["a", "b", "b"]), histogram=True)
    assert found.histogram[32_767] == 1
    assert found.histogram[32_768] == 1  # the zero row


@given(st.integers(0, 2**16))
@settings(max_examples=20)
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    labels = labels_of([*rng.integers(1, 6, 8).tolist(), 2], "shuffled", rng)
    vectors = exact_rows(rng, labels.size, 8, peak=40)
    order = rng.permutation(labels.size)
    a = score_tail(vectors, labels, block=6, histogram=True)
    b = score_tail(vectors[order], labels[order], block=6, histogram=True)
    assert multiset(a.mated, a.mated_subject) == multiset(b.mated, b.mated_subject)
    np.testing.assert_array_equal(a.top, b.top)
    assert multiset(a.top, *np.sort(a.pairs_of(), 1).T) == multiset(b.top, *np.sort(b.pairs_of(), 1).T)
    np.testing.assert_array_equal(a.subject_histogram, b.subject_histogram)


def test_the_length_of_rows_does_not_matter_after_unit_rows(crowd):
    vectors, labels = crowd[0][:200], crowd[1][:200]
    a = score_tail(unit_rows(vectors), labels, far_max=1.0)
    b = score_tail(unit_rows(vectors * np.float32(2.0**40)), labels, far_max=1.0)
    np.testing.assert_array_equal(a.top, b.top)
    lengths = np.random.default_rng(0).uniform(1e-3, 1e3, (200, 1)).astype(np.float32)
    c = score_tail(unit_rows(vectors * lengths), labels, far_max=1.0)
    np.testing.assert_allclose(a.mated, c.mated, atol=5e-7)
    np.testing.assert_allclose(a.top, c.top, atol=5e-7)


def test_the_same_call_gives_the_same_bytes(crowd):
    a, b = (score_tail(*crowd, far_max=1e-3, block=256, counts_at=[0.1], histogram=True) for _ in range(2))
    for field in FIELDS:
        assert np.asarray(getattr(a, field)).tobytes() == np.asarray(getattr(b, field)).tobytes(), field
    assert a.at == b.at
    assert a.pairs_of().tobytes() == b.pairs_of().tobytes()


def test_counts_are_exact_as_far_as_the_tail_goes_and_an_error_beyond(crowd):
    vectors, labels = crowd
    found = score_tail(vectors, labels, far_max=1e-4, counts_at=[-0.3, 0.1])
    full = score_tail(vectors, labels, far_max=1.0)
    for threshold in (-0.3, 0.1):  # neither is a float32: both must be found again all the same
        assert found.false_accepts(threshold) == np.count_nonzero(full.top >= np.float32(threshold))
    lowest = float(np.nextafter(found.top[-1], np.float32(2)))
    assert found.false_accepts(lowest) == np.count_nonzero(full.top >= np.float32(lowest))
    assert found.ties(lowest) == np.count_nonzero(full.top == found.top[-1]) == 1
    with pytest.raises(DataError, match=r"the score tail ends at .* cannot count at 0.2.*larger far_max.*counts_at"):
        found.false_accepts(0.2)


def test_a_tie_that_fills_the_tail_to_its_end_is_counted():
    """Binary codes: most scores are one value. The threshold above it must be countable, ties included."""
    rng = np.random.default_rng(0)
    vectors = np.eye(8, dtype=np.float32)[rng.integers(0, 8, 300)]
    vectors[:10] = np.float32(0.25)  # ten rows apart from each other score 0.5; with the rest 0.25
    labels = np.concatenate([np.arange(10), np.repeat(np.arange(10, 155), 2)])
    found = score_tail(vectors, labels, far_max=1e-3)
    truth = all_pairs(vectors, labels)
    threshold = threshold_at(found.top, found.nonmated, 1e-3)
    assert found.false_accepts(threshold) == truth.count(threshold) == 0
    assert found.ties(threshold) == sum(truth.nonmated == 1)
    assert found.top.size < found.nonmated


def test_zero_rows_score_zero_and_do_no_harm():
    vectors = np.zeros((6, 4), np.float32)
    vectors[0, 0] = vectors[1, 0] = 1
    found = score_tail(vectors, np.array(list("aabbcc")), histogram=True)
    assert sorted(found.mated.tolist()) == [0, 0, 1]
    np.testing.assert_array_equal(found.top, np.zeros(12, np.float32))
    assert found.histogram[32_768] == 12


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 4, "at least two identities, got 1"),
        (list("abcd"), "at least one identity with two images; every identity has one"),
        (list("aab"), r"every row needs one identity, got 4 rows and shape \(3,\)"),
        (list("aabbc"), r"every row needs one identity, got 4 rows and shape \(5,\)"),
    ],
)
def test_what_cannot_be_verified_is_refused(labels, message):
    with pytest.raises(DataError, match=message):
        score_tail(np.eye(4, dtype=np.float32), np.array(labels))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_cannot_be_scored_is_named_and_not_called_private(bad):
    vectors = np.eye(4, dtype=np.float32)
    vectors[2, 1:3] = bad, -bad
    with pytest.raises(DataError, match="row 2 holds NaN or infinity"):
        score_tail(vectors, np.array(list("aabb")))
