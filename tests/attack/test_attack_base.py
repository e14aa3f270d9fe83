from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError
from faceblind.attack import Cosine, draw_images, freeze
from strategies import labels_of, unit_gauss


@settings(max_examples=100)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 8), st.integers(0, 2**16))
def test_k_images_of_each_identity_or_all_it_has(counts, k, seed):
    identity = labels_of(counts, "shuffled", np.random.default_rng(seed))
    rows = draw_images(identity, k, np.random.default_rng(seed))
    assert (np.diff(rows) > 0).all()  # in order, none twice
    names, found = np.unique(identity[rows], return_counts=True)
    np.testing.assert_array_equal(names, np.unique(identity))
    np.testing.assert_array_equal(found, np.minimum(counts, k))
    np.testing.assert_array_equal(rows, draw_images(identity, k, np.random.default_rng(seed)))


def test_every_set_of_images_is_as_likely_as_every_other():
    """Chi-square over the ten pairs out of five images, in the midst of other people: 27.9 is its 99.9 % point."""
    identity = np.array(list("bacabcabcabbca"))
    own = np.flatnonzero(identity == "a")
    rng = np.random.default_rng(11)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(5000):
        rows = draw_images(identity, 2, rng)
        pair = tuple(rows[identity[rows] == "a"].tolist())
        seen[pair] = seen.get(pair, 0) + 1
    assert own.size == 5
    assert len(seen) == 10
    assert sum((count - 500) ** 2 / 500 for count in seen.values()) < 27.9


def test_people_are_drawn_independently():
    identity = np.repeat(["a", "b"], 2)
    rng = np.random.default_rng(5)
    seen = np.zeros((2, 2))
    for _ in range(4000):
        a, b = draw_images(identity, 1, rng)
        seen[a, b - 2] += 1
    assert ((seen - 1000) ** 2 / 1000).sum() < 16.3  # 99.9 % of chi-square with three degrees


@pytest.mark.parametrize("k", [0, -3])
def test_an_attacker_without_images_is_refused(k):
    with pytest.raises(DataError, match=f"at least one image per identity, got k={k}"):
        draw_images(np.array(["a"]), k, np.random.default_rng(0))


@dataclass(frozen=True)
class Stub:
    name: str
    value: float
    setting: dict = field(default_factory=dict)

    def map(self, X: np.ndarray) -> np.ndarray:
        return X


@pytest.mark.parametrize(
    ("values", "winner"),
    [([0.1, 0.3, 0.2], 1), ([0.3, 0.3, 0.1], 0), ([0.1, 0.3, 0.3], 1), ([0, 0, 0], 0), ([-1, -2], 0)],
)
def test_the_best_candidate_is_frozen_and_the_earlier_of_equals(values, winner):
    candidates = [Stub(f"c{i}", v) for i, v in enumerate(values)]
    assert freeze(candidates, lambda c: c.value) is candidates[winner]


def test_a_single_candidate_needs_no_validation():
    only = Stub("c", 0)
    assert freeze([only], lambda c: 1 / 0) is only


def test_all_images_are_drawn_when_k_is_none_and_no_random_number_is_used():
    identity, rng = labels_of([3, 1, 4], "shuffled", np.random.default_rng(0)), np.random.default_rng(1)
    np.testing.assert_array_equal(draw_images(identity, None, rng), np.arange(8))
    assert rng.random() == np.random.default_rng(1).random()


class Stream:
    """Candidates that are made as they are asked for."""

    def __init__(self, *values: float) -> None:
        self.values, self.made = values, 0

    def __iter__(self):
        for value in self.values:
            self.made += 1
            yield Stub(f"c{self.made}", value)


@pytest.mark.parametrize(
    ("values", "patience", "winner", "made"),
    [
        ((0.1, 0.2, 0.2, 0.1, 0.9), 2, 0.2, 4),  # a tie is no improvement
        ((0.1, 0.2, 0.1, 0.3, 0.2, 0.2), 2, 0.3, 6),  # counted anew after one that improves
        ((0.5, 0.4, 0.9), 1, 0.5, 2),
        ((0.1, 0.2, 0.3), 2, 0.3, 3),
        ((0.5, 0.4, 0.3, 0.2, 0.9), None, 0.9, 5),
    ],
)
def test_candidates_stop_being_made_after_enough_that_do_not_improve(values, patience, winner, made):
    stream = Stream(*values)
    assert freeze(stream, lambda c: c.value, patience).value == winner
    assert stream.made == made


def test_every_candidate_is_looked_at_once():
    seen: list[str] = []
    freeze(Stream(0.1, 0.3, 0.2), lambda c: seen.append(c.name) or c.value, 5)
    assert seen == ["c1", "c2", "c3"]


def test_freezing_nothing_or_without_patience_is_refused():
    with pytest.raises(DataError, match="offered no candidate: its grid is empty"):
        freeze([], lambda c: 0.0)
    with pytest.raises(DataError, match="patience of at least one candidate, got 0"):
        freeze([Stub("c", 0)], lambda c: 0.0, 0)


def test_plain_cosine_compares_vectors_as_they_are_and_learns_nothing():
    X = unit_gauss(np.random.default_rng(0), 6, 4) * np.arange(6, dtype=np.float32)[:, None]
    (candidate,) = Cosine().fit(X, np.repeat(["a", "b"], 3), k=1, rng=np.random.default_rng(0))
    mapped = candidate.map(X)
    assert not mapped[0].any()
    np.testing.assert_allclose(np.linalg.norm(mapped[1:], axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(mapped[1:] * np.arange(1, 6)[:, None], X[1:], atol=1e-5)
    assert candidate.setting == {}
    assert not Cosine.learns
    assert Cosine().describe()["name"] == "cosine"
