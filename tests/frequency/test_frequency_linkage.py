"""Linkage of releases: coordinates against an explicit projection, a planted leak, chance under drowning noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faceblind.frequency.attacks import linkage  # noqa: E402
from faceblind.frequency.attacks.base import Public  # noqa: E402
from faceblind.frequency.attacks.catalogue import LINKAGE, attacks_on  # noqa: E402
from faceblind.frequency.attacks.linkage import PHOTOGRAPHS, RELEASES, Sets, link, reduced  # noqa: E402
from faceblind.frequency.attacks.look import Look  # noqa: E402
from faceblind.frequency.attacks.run import run_attacks  # noqa: E402
from faceblind.frequency.attacks.targets import Targets  # noqa: E402
from faceblind.frequency.releases.base import Release, Released  # noqa: E402
from faceblind.frequency.releases.registry import open_release, preset  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402

SIDE = 12
pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Noisy(Release):
    """Pixels with normal noise of its own deviation for each channel."""

    kind, title = "noisy", "noisy"

    def __init__(self, deviation=(0.0, 0.0, 0.0)):
        super().__init__((SIDE, SIDE))
        self.deviation = torch.tensor(deviation)[:, None, None]

    @property
    def shape(self):
        return 3, SIDE, SIDE

    def config(self):
        return {}

    def forward(self, pixels, generator=None, *, noise=True):
        return Released(pixels + self.deviation * torch.randn(pixels.shape, generator=generator) * noise)


def people(seed, count, each=4):
    rng = np.random.default_rng(seed)
    base = rng.uniform(60, 195, (count, SIDE, SIDE, 3))
    images = base[:, None] + rng.normal(0, 15, (count, each, SIDE, SIDE, 3))
    names = np.repeat([f"{seed}-{i}" for i in range(count)], each)
    return np.clip(images, 0, 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 3), names


@pytest.fixture(scope="module")
def faces():
    return Targets.draw(*people(1, 30), each=2), Public(*people(2, 30))


def embed(tensor):
    return torch.nn.functional.normalize(tensor.mean(dim=(2, 3)) - 127)


def best(rows, **wanted):
    return max(
        (row for row in rows if all(row[key] == value for key, value in wanted.items())), key=lambda row: row["tar"]
    )


@pytest.mark.parametrize("held", [2**29, 40 * 4 * 3 * SIDE**2])
def test_coordinates_are_those_of_an_explicit_projection(faces, monkeypatch, held):
    monkeypatch.setattr(linkage, "HELD", held)  # all faces in one block, or 40 at a time
    targets, public = faces
    deviation = (20.0, 5.0, 1.0)
    sets = Sets.of(Noisy(deviation), targets, public, 0)
    own, queries, galleries = reduced(sets, 0)

    def rows(some):
        return torch.cat(list(some)).double()

    noisy, clean = rows(sets.own), torch.from_numpy(public.pixels.transpose(0, 3, 1, 2).astype(float))
    measured = (noisy - clean).transpose(0, 1).flatten(1).std(dim=1, unbiased=False)
    np.testing.assert_allclose(measured, deviation, rtol=0.05)
    scale = (measured**2 + 1e-6 * (measured**2).mean()).sqrt()[:, None, None]

    def flat(some):
        return (rows(some) / scale).flatten(1).numpy()

    x = (clean / scale).flatten(1).numpy()
    _, singular, basis = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    basis = basis[singular**2 > 1e-6 * singular[0] ** 2]
    middle = flat(sets.own).mean(axis=0)
    for found, some in ((own, sets.own), (queries, sets.targets), (galleries[PHOTOGRAPHS], sets.gallery[PHOTOGRAPHS])):
        expected = (flat(some) - middle) @ basis.T
        assert found.shape == expected.shape
        # Axes may be turned around or, where variances are close, turned: what attackers use are the products.
        products = expected @ ((flat(sets.own) - middle) @ basis.T).T
        np.testing.assert_allclose(found @ own.T, products, rtol=0, atol=1e-4 * np.abs(products).max())


def test_a_planted_leak_is_found_and_drowning_noise_is_chance(faces):
    open_rows = link(Noisy((1.0, 1.0, 1.0)), embed, *faces, far=0.01)
    for gallery in (RELEASES, PHOTOGRAPHS):
        row = best(open_rows, space=linkage.TENSOR, gallery=gallery)
        assert row["tar"] > 0.9 > 0.3 > row["null"]["tar"]
    assert {row["attacker"] for row in open_rows} == {"cosine", "ridge", "lda", "wccn"}
    # Means over a face say less than its pixels.
    assert best(open_rows, space=linkage.EMBEDDING)["tar"] < best(open_rows, space=linkage.TENSOR)["tar"]
    for row in link(Noisy((3e4, 3e4, 3e4)), embed, *faces, far=0.01):
        assert row["low"] <= 0.01
        assert row["tar"] < 0.15


def test_noise_in_one_channel_does_not_hide_the_others(faces):
    rows = link(Noisy((3e4, 1.0, 1.0)), embed, *faces, far=0.01)
    assert best(rows, space=linkage.TENSOR, attacker="cosine")["tar"] > 0.9


def test_without_noise_releases_are_photographs_and_are_compared_once(faces):
    rows = link(Rgb((SIDE, SIDE)), embed, *faces)
    assert {row["gallery"] for row in rows} == {RELEASES}
    assert len(rows) == 8


def test_an_attacker_with_few_people_only_compares(faces):
    targets, _ = faces
    rows = link(Noisy(), embed, targets, Public(*people(3, 3)))
    assert {row["attacker"] for row in rows} == {"cosine"}
    alone = Public(*people(4, 40, 1))  # one photograph of each: nothing to learn identity from
    assert {row["attacker"] for row in link(Noisy(), embed, targets, alone)} == {"cosine"}


def test_faces_that_are_all_released_alike_link_nothing(faces):
    class Blank(Noisy):
        def forward(self, pixels, generator=None, *, noise=True):
            return Released(torch.zeros(len(pixels), *self.shape))

    targets, public = faces
    rows = link(Blank(), lambda t: t.flatten(1)[:, :4], targets, Public(public.pixels[:3], public.identity[:3]))
    assert all(row["tar"] == 0 for row in rows)


def test_the_settings_are_chosen_by_the_area_under_the_curve():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20, 3)).astype(np.float32)
    names = np.repeat([f"p{i}" for i in range(5)], 4)
    scores = vectors @ vectors.T
    mated, other = [], []
    for i in range(20):
        for j in range(i):
            (mated if names[i] == names[j] else other).append(scores[i, j])
    direct = np.mean([(a > b) + (a == b) / 2 for a in mated for b in other])
    assert linkage._auc(vectors, names) == pytest.approx(direct)


def test_linkage_of_coefficients_is_kept_with_the_attacks(faces, tmp_path):
    kind, config = preset("dctdp")
    release = open_release(kind, (SIDE, SIDE), config | {"eps_mean": 1e4})
    targets, public = faces
    release.calibrate(
        lambda: iter([(torch.from_numpy(public.pixels.transpose(0, 3, 1, 2)).float(), list(public.identity))])
    )
    assert attacks_on(release, [LINKAGE]) == []
    said = []

    def run(**options):
        said.clear()
        return run_attacks(
            release, targets, public, [Look()], tmp_path, progress=lambda what, *_: said.append(what), **options
        )

    assert run()["linkage"] == []
    first = run(embed=embed)
    assert best(first["linkage"], space=linkage.TENSOR)["tar"] > 0.9
    assert LINKAGE in said
    again = run(embed=embed)
    assert json.dumps(again) == json.dumps(first)
    assert LINKAGE not in said
    run(embed=embed, key="another model")
    assert LINKAGE in said
