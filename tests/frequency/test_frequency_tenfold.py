"""Ten folds against the published procedure written out in loops, and intervals against people who were not drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError
from faceblind.frequency.evaluation.pairs import PairSet, contiguous_folds, folds_within, linked_people, make_pairs
from faceblind.frequency.evaluation.tenfold import THRESHOLDS, squared_distances, tenfold, unit_rows
from faceblind.measure.limits import limits


def crowd(people: int, each: int, noise: float, seed: int, d: int = 16):
    rng = np.random.default_rng(seed)
    identity = np.repeat([f"p{i:03d}" for i in range(people)], each)
    centres = np.repeat(rng.normal(size=(people, d)), each, axis=0)
    return (centres + noise * rng.normal(size=centres.shape)).astype(np.float32), identity


def published(embeddings, pairs: PairSet):
    """The published code, in loops: one fold after the other, one threshold after the other."""
    unit = [row / np.linalg.norm(row) for row in embeddings.astype(np.float64)]
    distance = [float(((unit[a] - unit[b]) ** 2).sum()) for a, b in zip(pairs.first, pairs.second, strict=True)]
    accuracies, chosen = [], []
    for fold in range(pairs.folds):
        best, best_at = -1.0, None
        for threshold in np.arange(0, 4, 0.01):
            right = [
                (d < threshold) == s for d, s, f in zip(distance, pairs.same, pairs.fold, strict=True) if f != fold
            ]
            if sum(right) / len(right) > best:
                best, best_at = sum(right) / len(right), threshold
        test = [(d < best_at) == s for d, s, f in zip(distance, pairs.same, pairs.fold, strict=True) if f == fold]
        accuracies.append(sum(test) / len(test))
        chosen.append(best_at)
    return accuracies, chosen


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.8, 1.5]), st.integers(2, 7))
def test_accuracy_is_that_of_the_published_loops(seed, noise, folds):
    embeddings, identity = crowd(16, 4, noise, seed)
    pairs = make_pairs(identity, 20 * folds, folds=folds, rng=np.random.default_rng(seed))
    got = tenfold(embeddings, pairs, draws=10, rng=np.random.default_rng(0))
    accuracies, chosen = published(embeddings, pairs)
    assert got.by_fold.tolist() == accuracies
    assert got.thresholds.tolist() == chosen
    assert got.accuracy == np.mean(accuracies)
    assert got.std == np.std(accuracies)
    assert got.low <= got.accuracy <= got.high


def simple(distances, same, fold, people=None):
    """Embeddings in the plane with given squared distances between the two of each pair."""
    rows = []
    for distance in distances:
        angle = 2 * np.arcsin(np.sqrt(distance) / 2)
        rows += [[1.0, 0.0], [np.cos(angle), np.sin(angle)]]
    n = len(distances)
    pairs = PairSet(
        name="x",
        first=np.arange(0, 2 * n, 2),
        second=np.arange(1, 2 * n, 2),
        same=np.array(same),
        fold=np.array(fold),
        images=2 * n,
        people=people,
    )
    return np.array(rows, dtype=np.float32), pairs


def test_ties_take_the_smallest_threshold_and_a_distance_at_the_threshold_is_no_accept():
    embeddings, pairs = simple([0.505, 2.505, 0.505, 2.505], [True, False] * 2, [0, 0, 1, 1])
    got = tenfold(embeddings, pairs, draws=5, rng=np.random.default_rng(0))
    assert np.allclose(got.thresholds, 0.51)  # the first of 200 that part the two kinds
    assert got.accuracy == 1
    # The same embedding twice: distance 0 is not below the threshold 0, so 0.01 is the first that accepts it.
    embeddings, pairs = simple([0.0, 2.0, 0.0, 2.0], [True, False] * 2, [0, 0, 1, 1])
    assert np.allclose(tenfold(embeddings, pairs, draws=5, rng=np.random.default_rng(0)).thresholds, 0.01)


def test_without_people_the_interval_counts_pairs_and_says_so():
    embeddings, pairs = simple([0.5, 2.5, 2.5, 0.5] * 10, [True, False] * 20, np.repeat([0, 1], 20))
    got = tenfold(embeddings, pairs, draws=5, rng=np.random.default_rng(0))
    assert got.interval == "pairs"
    assert got.people is None
    assert (got.low, got.high) == limits(got.accuracy, got.accuracy * (1 - got.accuracy) / 40, 40)
    row = got.rows("x", noise=True)[0]
    assert row["protocol"] == "tenfold"
    assert row["people"] is None
    assert row["pairs"] == 40


def test_the_interval_of_independent_pairs_is_that_of_as_many_trials():
    # Everyone is in one pair: people know no more than pairs do, and draws alone would claim less (weights 1 and product).
    n, rng = 1200, np.random.default_rng(3)
    same = np.arange(n) % 2 == 0
    wrong = rng.random(n) < 0.2
    distance = np.where(same != wrong, 0.5, 2.5)
    people = np.array([f"a{i // 2}" if same[i // 2] else f"b{i}" for i in range(2 * n)])
    embeddings, pairs = simple(distance, same, contiguous_folds(n, 10), people)
    got = tenfold(embeddings, pairs, draws=300, rng=np.random.default_rng(0))
    assert got.interval == "people"
    assert got.people == n // 2 + n
    expected = np.sqrt(got.accuracy * (1 - got.accuracy) / n)
    assert (got.high - got.low) / 3.92 == pytest.approx(expected, rel=0.2)


def test_pairs_that_share_people_widen_the_interval():
    # 20 people have 100 pairs each, and a person's are all right or all wrong; 2,000 pairs of strangers are all right.
    people, each, rng = 20, 100, np.random.default_rng(1)
    n = people * each
    bad = np.repeat(rng.permutation(people) < 6, each)
    distance = np.append(np.where(bad, 2.5, 0.5), np.full(n, 1.5))
    who = np.append(np.repeat([f"p{i:02d}" for i in range(people)], 2 * each), [f"s{i}" for i in range(2 * n)])
    embeddings, pairs = simple(distance, np.arange(2 * n) < n, np.tile(np.arange(10), n // 5), who)
    got = tenfold(embeddings, pairs, draws=300, rng=np.random.default_rng(0))
    assert got.accuracy == pytest.approx(0.85)
    # Half of the pairs rest on 20 people of whom 30 % are wrong: 0.5 * sqrt(0.3 * 0.7 / 20) is the standard error.
    assert (got.high - got.low) / 3.92 == pytest.approx(0.5 * np.sqrt(0.21 / people), rel=0.3)


def test_no_error_among_few_people_is_not_certainty():
    embeddings, identity = crowd(20, 6, 0.0, 0)
    pairs = make_pairs(identity, 600, folds=10, rng=np.random.default_rng(0))
    got = tenfold(embeddings, pairs, draws=50, rng=np.random.default_rng(0))
    assert got.accuracy == 1
    assert got.high == 1
    assert got.low < 0.025 ** (1 / 20)


def test_bad_input_is_named():
    embeddings, identity = crowd(8, 4, 0.5, 0)
    pairs = make_pairs(identity, 20, folds=2, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"pairs: 32 images need one embedding each, got an array of shape \(31, 16\)"):
        tenfold(embeddings[1:], pairs, rng=np.random.default_rng(0))
    spoiled = embeddings.copy()
    spoiled[7, 3] = np.nan
    with pytest.raises(DataError, match=r"the embedding of image 7 is zero or not finite \(1 such rows\)"):
        tenfold(spoiled, pairs, rng=np.random.default_rng(0))
    spoiled[7] = 0
    with pytest.raises(DataError, match="image 7 is zero"):
        unit_rows(spoiled, 32, "x")
    one = PairSet(**{**vars(pairs), "fold": np.zeros(len(pairs), dtype=np.int64)})
    with pytest.raises(DataError, match="there is one fold only"):
        tenfold(embeddings, one, rng=np.random.default_rng(0))
    for change, message in (
        ({"second": pairs.second + 30}, r"pairs name image \d+, but there are 32"),
        ({"same": np.ones(len(pairs), dtype=bool)}, "all 20 pairs are of one person"),
        ({"fold": pairs.fold * 2}, "folds are numbered 0, 1, 2 ... without gaps"),
        ({"people": identity[:5]}, "32 images need one person each"),
        ({"fold": pairs.fold[1:]}, "pairs need a first, a second, a label and a fold each"),
    ):
        with pytest.raises(DataError, match=message):
            PairSet(**{**vars(pairs), **change})


def test_distances_do_not_depend_on_blocks():
    embeddings, identity = crowd(8, 4, 0.5, 0)
    pairs = make_pairs(identity, 40, folds=2, rng=np.random.default_rng(0))
    unit = unit_rows(embeddings, 32, "x")
    assert np.array_equal(squared_distances(unit, pairs), squared_distances(unit, pairs, block=7))
    assert THRESHOLDS.size == 400


def test_same_seed_same_result():
    embeddings, identity = crowd(30, 4, 1.0, 0)
    pairs = [make_pairs(identity, 400, rng=np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(pairs[0].first, pairs[1].first)
    results = [tenfold(embeddings, p, draws=50, rng=np.random.default_rng(1)) for p in pairs]
    assert (results[0].low, results[0].high) == (results[1].low, results[1].high)


# Pairs made of any set of people.


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 6), min_size=4, max_size=40), st.integers(2, 5), st.integers(10, 200), st.integers(0, 99)
)
def test_made_pairs_are_distinct_balanced_and_true_to_people(counts, folds, pairs, seed):
    identity = np.array([f"p{i}" for i, count in enumerate(counts) for _ in range(count)])
    rich = sum(count >= 2 for count in counts)
    half = pairs // (2 * folds)
    if not rich or half < 1:
        with pytest.raises(DataError):
            make_pairs(identity, pairs, folds=folds, rng=np.random.default_rng(seed))
        return
    made = make_pairs(identity, pairs, folds=folds, rng=np.random.default_rng(seed))
    assert np.array_equal(identity[made.first] == identity[made.second], made.same)
    assert np.all(made.first < made.second)
    assert len(set(zip(made.first.tolist(), made.second.tolist(), strict=True))) == len(made)
    assert len(made) <= pairs
    for fold in range(made.folds):
        here = made.fold == fold
        assert made.same[here].sum() * 2 == here.sum()
    if rich >= 2 * folds:
        assert not made.note
        assert made.folds == folds
        groups = [
            set(identity[made.first[made.fold == f]]) | set(identity[made.second[made.fold == f]]) for f in range(folds)
        ]
        assert sum(map(len, groups)) == len(set().union(*groups))
    else:
        assert "folds share people" in made.note


def test_people_with_many_images_do_not_fill_the_mated_pairs():
    identity = np.array(["many"] * 100 + [f"p{i}" for i in range(30) for _ in range(3)])
    made = make_pairs(identity, 120, folds=2, rng=np.random.default_rng(0))
    names, counts = np.unique(identity[made.first[made.same]], return_counts=True)
    assert names.size == 31
    assert counts.max() <= 4


def test_pairs_of_nobody_are_refused():
    with pytest.raises(DataError, match="got 1 people"):
        make_pairs(["a", "a"], 10, folds=2, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="got 10 in 1"):
        make_pairs(["a", "a", "b"], 10, folds=1, rng=np.random.default_rng(0))


def test_folds_are_cut_as_kfold_cuts_them():
    assert contiguous_folds(11, 3).tolist() == [0] * 4 + [1] * 4 + [2] * 3
    from_sklearn = pytest.importorskip("sklearn.model_selection")
    expected = np.empty(6007, dtype=int)
    for fold, (_, test) in enumerate(from_sklearn.KFold(10).split(np.zeros(6007))):
        expected[test] = fold
    assert np.array_equal(contiguous_folds(6007, 10), expected)
    fold_by_fold = np.tile(np.repeat([True, False], 300), 10)
    assert np.array_equal(folds_within(fold_by_fold, 10), contiguous_folds(6000, 10))
    one_by_one = np.repeat([True, False], 30)
    assert np.array_equal(folds_within(one_by_one, 3), np.tile(contiguous_folds(30, 3), 2))


def test_people_are_linked_through_others():
    assert linked_people(np.array([0, 1, 4]), np.array([1, 2, 4]), 6).tolist() == [0, 0, 0, 1, 2, 3]
