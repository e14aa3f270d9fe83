"""Who is trained on, validated on and tested, drawn as the paper does from each embedding table.

With enough people of `images` photographs (480 of 20, in the paper) exactly those are used, with exactly that many
photographs each. Smaller sets admit people with fewer photographs; those with most go to test first and validation
next, because a low FAR needs pairs there. What was scaled or admitted is said in notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, SplitError
from faceblind.attack import draw_images
from faceblind.audit.papers.protocol import Protocol
from faceblind.audit.papers.sources import Source
from faceblind.audit.provenance import table_digest
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.tables import read_table
from faceblind.measure import pairs_above

SAME_PICTURE = 1 - 1e-6
_LEAST = 4  # in every part: the fresh attacker halves validation, and a half needs two people
_PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Group:
    """Unit vectors (n, d) float32 of some people, with their identities (n,)."""

    vectors: NDArray[np.float32]
    identity: NDArray[np.str_]

    @property
    def people(self) -> int:
        """Number of identities."""
        return int(np.unique(self.identity).size)

    def only(self, names: Sequence[str]) -> Group:
        """Return the rows of some people."""
        rows = np.isin(self.identity, np.asarray(names))
        return Group(self.vectors[rows], self.identity[rows])


@dataclass(frozen=True, eq=False)
class Bench:
    """One table, divided.

    Attributes
    ----------
    groups : ``train``, ``validation``, ``test``, and ``spare`` when people are left over
    order : train people in the order they were drawn, then spare ones: a larger eraser is fitted on a longer beginning
    digest : SHA-256 of the table
    """

    source: Source
    groups: dict[str, Group]
    order: tuple[str, ...]
    digest: str
    notes: tuple[str, ...]
    synthetic: bool = False

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.groups["train"].vectors.shape[1])

    def fresh(self, seen: int) -> tuple[str, tuple[str, ...] | None]:
        """Return the group, and the people in it, that an eraser fitted on the first `seen` people never saw.

        They are spare people, as many as train has so that the two differ in nothing else, or all of validation when
        fewer than half as many as train are spare.
        """
        train = self.groups["train"].people
        spare = self.order[max(seen, train) :][:train]
        return ("spare", spare) if 2 * len(spare) >= train else ("validation", None)

    def fit_group(self, people: int) -> Group:
        """Return the first people in order, from train and spare."""
        names = self.order[:people]
        parts = [self.groups[name].only(names) for name in ("train", "spare") if name in self.groups]
        return Group(np.concatenate([p.vectors for p in parts]), np.concatenate([p.identity for p in parts]))


def load_bench(source: Source, protocol: Protocol) -> Bench:
    """Read a table and divide its people; the same seed draws the same people and photographs.

    Raises
    ------
    SplitError
        Fewer people with enough images than a split needs.
    """
    try:
        return divide(read_table(source.path), source, protocol)
    except SplitError as error:
        raise SplitError(f"{source.path}: {error}") from error


def divide(embeddings: EmbeddingSet, source: Source, protocol: Protocol) -> Bench:
    """Divide the people of a table."""
    identity = embeddings.require_identity()
    rng = np.random.default_rng([protocol.seed, 0x9A9E])
    names, counts = np.unique(identity, return_counts=True)
    sizes, pool, notes = _sizes(names, counts, protocol)
    # Shuffled, then by number of photographs: a draw when all have the same number, else most photographs first.
    order = rng.permutation(pool.size)
    order = order[np.argsort(-np.minimum(counts[pool][order], protocol.images), kind="stable")]
    drawn = [str(name) for name in names[pool][order]]
    test, validation = drawn[: sizes["test"]], drawn[sizes["test"] : sizes["test"] + sizes["validation"]]
    rest = drawn[sizes["test"] + sizes["validation"] :]
    rest = [rest[i] for i in rng.permutation(len(rest))]
    most = max(0, max(protocol.fit_people) - sizes["train"], sizes["train"])  # more spare people are of no use
    train, spare = rest[: sizes["train"]], rest[sizes["train"] : sizes["train"] + most]
    chosen = draw_images(identity, protocol.images, rng)
    groups, dropped = {}, 0
    for name, people in (("train", train), ("validation", validation), ("test", test), ("spare", spare)):
        rows = chosen[np.isin(identity[chosen], people)]
        if rows.size:
            groups[name], lost = _clean(embeddings.take(rows), measured=name in ("validation", "test"))
            dropped += lost
    if dropped:
        notes.append(f"{dropped} photographs of validation or test people stand under two names and are left out")
    fewest = np.bincount(np.unique(groups["train"].identity, return_inverse=True)[1])
    short = int((fewest < max(protocol.ks)).sum())
    if short:
        notes.append(
            f"{short} of {fewest.size} train people have fewer than {max(protocol.ks)} images: probes take all of theirs"
        )
    return Bench(
        source,
        groups,
        (*train, *spare),
        table_digest(embeddings),
        tuple(notes),
        synthetic=embeddings.meta.synthetic,
    )


def _sizes(
    names: NDArray[np.str_], counts: NDArray[np.int64], protocol: Protocol
) -> tuple[dict[str, int], NDArray[np.intp], list[str]]:
    wanted = dict(zip(_PARTS, protocol.people, strict=True))
    full = np.flatnonzero(counts >= protocol.images)
    if full.size >= sum(protocol.people):
        return wanted, full, []
    pool = np.flatnonzero(counts >= protocol.least)
    notes = []
    if pool.size > full.size:
        notes.append(
            f"{full.size} people have {protocol.images} images, {pool.size - full.size} with {protocol.least} to "
            f"{protocol.images - 1} are used as well; those with most go to test first, validation next"
        )
    if pool.size < sum(protocol.people):
        share = pool.size / sum(protocol.people)
        sizes = {name: max(_LEAST, int(size * share)) for name, size in wanted.items()}
        sizes["train"] += pool.size - sum(sizes.values())
        if sizes["train"] < _LEAST:
            raise SplitError(
                f"{names.size} people, {pool.size} of them with {protocol.least} or more images: at least {3 * _LEAST} "
                f"are needed ({_LEAST} each to train, validate and test)"
            )
        notes.append(
            f"scaled down from {_listed(wanted)} to {_listed(sizes)} people: the table has {pool.size} with "
            f"{protocol.least} or more images"
        )
        wanted = sizes
    return wanted, pool, notes


def _listed(sizes: dict[str, int]) -> str:
    return "/".join(str(sizes[name]) for name in _PARTS)


def _clean(part: EmbeddingSet, *, measured: bool) -> tuple[Group, int]:
    """Leave out both rows of a picture that stands under two names: one such pair hides every leak at a low FAR."""
    vectors, identity = part.unit(), part.require_identity()
    if not measured:
        return Group(vectors, identity), 0
    pairs, _, _ = pairs_above(vectors, SAME_PICTURE, labels=identity)
    keep = np.setdiff1d(np.arange(identity.size), pairs)
    if np.unique(identity[keep]).size < 2:
        raise DataError("nearly all photographs stand under two names: check the identity column")
    return Group(vectors[keep], identity[keep]), int(identity.size - keep.size)
