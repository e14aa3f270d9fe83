"""Linkage: are two releases of one person? Templates are compared as they are, without recovering a face.

The attackers of audits (`faceblind.attack`) learn from releases of the attacker's own faces, in two spaces: the released
tensor, reduced to the directions in which the attacker's faces differ most for the noise, and the embedding that the
recogniser makes of a release, which whoever runs the server has. The gallery is other releases of the same people, or
their photographs, which an attacker who holds them sends through the mechanism without its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from faceblind.attack import LDA, WCCN, Attacker, Candidate, Cosine, RidgeProbe, freeze
from faceblind.frequency.attacks.base import Progress, Public
from faceblind.frequency.attacks.common import Moments
from faceblind.frequency.attacks.matching import match
from faceblind.frequency.attacks.targets import Targets
from faceblind.frequency.batches import generator_of, tensor_of
from faceblind.frequency.releases.base import Release

LEARN = 256
"""Faces that directions are learnt from, at most."""
HELD = 2**29
"""Bytes of releases that are held at once."""
BATCH = 32
TENSOR, EMBEDDING = "released tensor", "the recogniser's embedding"
RELEASES, PHOTOGRAPHS = "other releases", "photographs, without noise"
_RANGE = 1e-6  # of the largest variance: products of float32
Embed = Callable[[Tensor], Tensor]


def attackers() -> list[Attacker]:
    """Return who compares: in each space."""
    return [Cosine(), RidgeProbe(covariance="all"), LDA(), WCCN()]


@dataclass(frozen=True, eq=False)
class Releases:
    """Releases of a set of faces, made anew each time in the same batches with the same noise."""

    release: Release
    pixels: NDArray[np.uint8]
    seed: int
    noise: bool = True

    def __len__(self) -> int:
        return len(self.pixels)

    def __iter__(self) -> Iterator[Tensor]:
        for number, start in enumerate(range(0, len(self.pixels), BATCH)):
            yield self.at(slice(start, start + BATCH), number)

    @torch.no_grad()
    def at(self, rows: slice, number: int) -> Tensor:
        """Release some rows, (b, C, h, w)."""
        pixels = tensor_of(self.pixels[rows])
        released: Tensor = self.release(pixels, generator_of(self.seed, number), noise=self.noise).tensor
        return released


@dataclass(frozen=True, eq=False)
class Sets:
    """What the attacker has: own faces, targets, and the gallery in two forms."""

    own: Releases
    targets: Releases
    gallery: dict[str, Releases]

    @classmethod
    def of(cls, release: Release, targets: Targets, public: Public, seed: int) -> Sets:
        """Draw noise for each set of its own; where there is none, other releases are all the gallery there is."""
        seeds = [int(s) for s in np.random.default_rng([seed, 0x11A]).integers(0, 2**40, 3)]
        gallery = {RELEASES: Releases(release, targets.gallery, seeds[2])}
        quiet = Releases(release, targets.gallery, seeds[2], noise=False)
        if not torch.equal(gallery[RELEASES].at(slice(BATCH), 0), quiet.at(slice(BATCH), 0)):
            gallery[PHOTOGRAPHS] = quiet
        return cls(
            Releases(release, public.pixels, seeds[0]),
            Releases(release, targets.pixels, seeds[1]),
            gallery,
        )


def link(
    release: Release,
    embed: Embed,
    targets: Targets,
    public: Public,
    *,
    far: float = 1e-2,
    seed: int = 0,
    progress: Progress = lambda _done, _of: None,
) -> list[dict[str, Any]]:
    """Link releases of the targets with their gallery, in every space by every attacker.

    Parameters
    ----------
    release
        As it is used: calibrated, trained, in the state for use.
    embed
        From releases (b, C, h, w) to embeddings (b, d).
    public
        The attacker's own faces. Attackers that learn need people with several photographs among them: two thirds of the
        people are learnt from, and settings are chosen on the others; without enough people only cosine is measured.
    far
        Target FAR.

    Returns
    -------
    list of dict
        Operating points (see `match`) with ``attacker``, ``setting``, ``space`` and ``gallery``.
    """
    sets = Sets.of(release, targets, public, seed)
    fit, validation = _people(public.identity, np.random.default_rng([seed, 0x5E7]))
    found = []
    for space, features in ((TENSOR, reduced(sets, seed, progress)), (EMBEDDING, _embedded(sets, embed))):
        own, queries, galleries = features
        for attacker in attackers():
            if attacker.learns and not fit.size:
                continue
            best = _fitted(attacker, own, public.identity, fit, validation, seed)
            for gallery, vectors in galleries.items():
                row = match(
                    best.map(queries), targets.identity, best.map(vectors), targets.gallery_identity, far=far, seed=seed
                )
                found.append(
                    {
                        "attacker": attacker.name,
                        "setting": dict(best.setting),
                        "space": space,
                        "gallery": gallery,
                        **row,
                    }
                )
    return found


Features = tuple[NDArray[np.float32], NDArray[np.float32], dict[str, NDArray[np.float32]]]
"""Rows of the attacker's own releases, of the targets', and of each gallery."""


def reduced(sets: Sets, seed: int, progress: Progress = lambda _done, _of: None) -> Features:
    """Reduce releases to the principal directions of the attacker's own faces.

    Channels are first divided by the deviation of their noise, so that directions are those with the most signal for the
    noise; the attacker measures it on own faces, released with and without. Directions come from releases without noise,
    where a few hundred faces suffice. They are as long as a release and are not kept: products with the faces they come
    from give the coordinates, a block of those faces at a time.
    """
    rows = np.sort(np.random.default_rng([seed, 0xD1]).permutation(len(sets.own))[:LEARN])
    clean = Releases(sets.own.release, sets.own.pixels[rows], 0, noise=False)
    scale = _noise_scale(sets.own)
    every: dict[str, Releases] = {"clean": clean, "own": sets.own, "targets": sets.targets, **sets.gallery}
    products = {name: np.empty((len(some), len(clean))) for name, some in every.items()}
    size = 4 * int(np.prod(sets.own.release.shape))
    block = max(1, min(len(clean), HELD // size))
    starts = range(0, len(clean), block)
    total, done = len(starts) * sum(len(some) for some in every.values()), 0
    for start in starts:
        part = Releases(clean.release, clean.pixels[start : start + block], 0, noise=False)
        held = torch.cat([_flat(batch, scale) for batch in part]).T
        for name, some in every.items():
            at = 0
            for batch in some:
                products[name][at : at + len(batch), start : start + block] = (_flat(batch, scale) @ held).numpy()
                at += len(batch)
                done += len(batch)
                progress(done, total)
    gram = products["clean"]
    centre = gram.mean(axis=1)
    values, vectors = np.linalg.eigh(gram - centre - centre[:, None] + centre.mean())
    keep = values > max(values[-1], 0) * _RANGE
    if not keep.any():  # all faces are released alike
        keep[-1], values, vectors = True, np.ones_like(values), np.zeros_like(vectors)
    basis = vectors[:, keep] / np.sqrt(values[keep])
    coordinates = {name: (p - p.mean(axis=1, keepdims=True)) @ basis for name, p in products.items()}
    middle = coordinates["own"].mean(axis=0)
    placed = {name: (found - middle).astype(np.float32) for name, found in coordinates.items()}
    return placed["own"], placed["targets"], {name: placed[name] for name in sets.gallery}


def _noise_scale(own: Releases) -> Tensor:
    """Return the deviation of the noise of each channel, (C, 1, 1), ones where there is none."""
    quiet = Releases(own.release, own.pixels[:LEARN], own.seed, noise=False)
    noisy = Releases(own.release, own.pixels[:LEARN], own.seed)
    moments = Moments()
    for a, b in zip(noisy, quiet, strict=True):
        moments.add(a - b)
    variance = moments.deviation().square()
    if not bool(variance.any()):
        return torch.ones(len(variance), 1, 1)
    # A channel without noise must not become infinitely clear.
    return (variance + 1e-6 * variance.mean()).sqrt().float()[:, None, None]


def _flat(batch: Tensor, scale: Tensor) -> Tensor:
    return (batch / scale).flatten(1)


def _embedded(sets: Sets, embed: Embed) -> Features:
    def rows(some: Releases) -> NDArray[np.float32]:
        with torch.no_grad():
            return np.concatenate([embed(batch).numpy() for batch in some]).astype(np.float32)

    return rows(sets.own), rows(sets.targets), {name: rows(some) for name, some in sets.gallery.items()}


def _people(identity: NDArray[np.str_], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to fit and to choose settings on: none where fewer than four people have two photographs."""
    names, counts = np.unique(identity, return_counts=True)
    several = rng.permutation(names[counts > 1])
    if several.size < 4:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    held = several[: max(2, several.size // 3)]
    chosen = np.isin(identity, held)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _fitted(
    attacker: Attacker,
    own: NDArray[np.float32],
    identity: NDArray[np.str_],
    fit: NDArray[np.intp],
    validation: NDArray[np.intp],
    seed: int,
) -> Candidate:
    candidates: Sequence[Candidate] = list(
        attacker.fit(own[fit], identity[fit], k=None, rng=np.random.default_rng([seed, 0xF17]))
    )
    return freeze(candidates, lambda c: _auc(c.map(own[validation]), identity[validation]), attacker.patience)


def _auc(vectors: NDArray[np.float32], identity: NDArray[np.str_]) -> float:
    """Return the probability that a pair of one person scores above one of two people."""
    a, b = np.triu_indices(len(vectors), 1)
    mated = identity[a] == identity[b]
    ranks = rankdata(np.einsum("nd,nd->n", vectors[a], vectors[b]))
    count = int(mated.sum())
    return float((ranks[mated].mean() - (count + 1) / 2) / (mated.size - count))
