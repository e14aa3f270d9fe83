"""For every attacker a leak that it reads and weaker ones miss: otherwise it would only cost time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from leak_makers import Maker, linear_leak, products_leak, reads, sizes_leak

from faceblind.attack import LDA, PLDA, WCCN, BestEffort, Cosine, MLPProbe, RidgeProbe

FAR = 1e-2
ATTACKERS = {a.name: a for a in (Cosine(), RidgeProbe(), WCCN(), LDA(), PLDA(), MLPProbe(), BestEffort())}


def parts(*levels: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(count, level) for count, level in levels])


# Identity at a twentieth of the size of everything else, in six of 24 directions.
BURIED = linear_leak(parts((6, 0.05), (18, 0.0)), parts((6, 0.02), (18, 1.0)))
# Identity in all directions: eight people differ in seven of them.
EVERYWHERE = linear_leak(np.ones(48), parts((24, 0.5), (24, 3.0)))
SIZES = sizes_leak(6, 8)
PRODUCTS = products_leak(6, 12)
CASES: dict[str, tuple[Maker, int, int]] = {
    "buried": (BURIED, 60, 8),
    "everywhere": (EVERYWHERE, 8, 20),
    "sizes": (SIZES, 150, 10),
    "products of few": (PRODUCTS, 20, 6),
}


@cache
def read(case: str, attacker: str) -> tuple[float, float]:
    make, people, images = CASES[case]
    return reads(ATTACKERS[attacker], make, people=people, images=images, far=FAR)


def test_ridge_reads_what_is_buried_under_other_variance_and_cosine_does_not():
    assert read("buried", "cosine")[0] < 2 * FAR
    assert read("buried", "ridge")[0] > 30 * FAR


def test_wccn_keeps_directions_in_which_few_people_happened_not_to_differ():
    assert read("everywhere", "wccn")[0] > 0.9
    assert max(read("everywhere", weaker)[0] for weaker in ("cosine", "ridge", "lda")) < 0.5


def test_lda_drops_directions_that_hold_no_identity():
    weaker = max(read("buried", name)[0] for name in ("cosine", "ridge", "wccn"))
    assert read("buried", "lda")[0] > 1.25 * weaker


def test_plda_reads_both_while_wccn_and_lda_each_miss_one():
    for case, missed in (("everywhere", "lda"), ("buried", "wccn")):
        assert read(case, "plda")[0] > 1.25 * read(case, missed)[0]
        assert read(case, "plda")[0] > 0.97 * max(read(case, other)[0] for other in ("wccn", "lda"))


def test_the_mlp_probe_reads_sizes_without_signs_and_linear_attackers_do_not():
    for linear in ("cosine", "ridge", "wccn", "lda", "plda"):
        assert read("sizes", linear)[1] == pytest.approx(0.5, abs=0.03)
    assert read("sizes", "mlp")[1] < 0.41
    assert read("sizes", "mlp")[0] > 1.4 * max(read("sizes", linear)[0] for linear in ("cosine", "ridge", "wccn"))


def test_best_effort_reads_products_from_few_people_where_the_mlp_probe_misses_them():
    for weaker in ("cosine", "ridge", "wccn", "lda", "plda", "mlp"):
        assert read("products of few", weaker)[1] > 0.46
    assert read("products of few", "best-effort")[1] < 0.1


def test_best_effort_is_about_as_good_as_the_best_linear_attacker_on_linear_leaks():
    for case in ("buried", "everywhere"):
        best = max(read(case, linear)[0] for linear in ("ridge", "wccn", "lda", "plda"))
        assert read(case, "best-effort")[0] > 0.85 * best


@pytest.mark.parametrize("attacker", ["wccn", "lda", "plda", "mlp"])
def test_without_identity_nothing_is_read(attacker):
    nothing = linear_leak(np.zeros(12), np.ones(12))
    tar, eer = reads(ATTACKERS[attacker], nothing, far=FAR)
    assert tar < 2 * FAR
    assert eer == pytest.approx(0.5, abs=0.03)
