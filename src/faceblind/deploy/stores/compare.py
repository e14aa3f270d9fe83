"""Raw and clean rows side by side, in key order: what the target lacks, has too much or holds otherwise.

Every raw row is projected again. That costs little beside reading it, and finds a row that was altered in the target as
well as one that changed in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.deploy.stores.base import Key, Rows, Store
from faceblind.deploy.stores.clean import Clean, clean
from faceblind.deploy.stores.record import REPAIRING, SHOWN, Record, add_checksums, checksum_of
from faceblind.erase import Projector


@dataclass(kw_only=True)
class Differences:
    """Where raw and clean rows do not go together, as counts with some keys each."""

    missing: int = 0
    """Raw rows without a clean one."""
    extra: int = 0
    """Clean rows whose raw one is gone, has no vector any more or has nothing left."""
    changed: int = 0
    """Clean rows that are not what their raw row gives."""
    examples: tuple[Key, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.missing or self.extra or self.changed)

    def words(self) -> str:
        """Return the counts in words."""
        parts = ((self.missing, "new"), (self.changed, "changed"), (self.extra, "gone"))
        said = ", ".join(f"{count:,} {what}" for count, what in parts if count)
        return f"{said}, among them {', '.join(map(str, self.examples))}" if self.examples else said


def compare(
    store: Store,
    projector: Projector,
    record: Record,
    *,
    name: str,
    batch_rows: int,
    fix: bool,
    progress: Callable[[int], None],
) -> tuple[Differences, Record]:
    """Read source and target once, in step.

    Parameters
    ----------
    fix : bool
        Write what is missing or changed and remove what is too much.

    Returns
    -------
    differences : Differences
        Found; with `fix`, they are gone afterwards.
    record : Record
        Counts and checksum of what the target holds now, with the status that `record` had.
    """
    found = Differences()
    held_now = replace(record, rows=0, empty=0, emptied=0, examples=(), energy=0.0, checksum="0" * 32)
    working = replace(record, status=REPAIRING).to_json()
    after: Key | None = None
    done = 0
    while True:
        raw = store.read(after, batch_rows)
        held = store.read_back(after, raw.last)
        want = clean(projector, raw, record, name)
        missing, changed, extra = _differences(want, held)
        found.missing += missing.size
        found.changed += changed.size
        found.extra += len(extra)
        touched = [*(want.rows.keys[i] for i in (*missing, *changed)), *extra]
        found.examples = (*found.examples, *touched)[:SHOWN]
        present, sums = len(held), [checksum_of(held.keys, held.vectors)]
        if fix and touched:
            stored = _fix(store, want.rows, np.sort(np.concatenate([missing, changed])), extra, working)
            replaced = {*stored.keys, *extra}
            kept = [i for i, key in enumerate(held.keys) if key not in replaced]
            present = len(kept) + len(stored)
            sums = [
                checksum_of([held.keys[i] for i in kept], held.vectors[kept]),
                checksum_of(stored.keys, stored.vectors),
            ]
        held_now = replace(
            held_now,
            rows=held_now.rows + present,
            empty=held_now.empty + len(raw.empty),
            emptied=held_now.emptied + len(want.emptied),
            examples=(*held_now.examples, *want.emptied)[:SHOWN],
            energy=held_now.energy + want.energy,
            checksum=add_checksums(held_now.checksum, *sums),
        )
        done += len(raw) + len(raw.empty)
        progress(done)
        if raw.last is None:
            return found, held_now
        after = raw.last
        held_now = replace(held_now, last=after)


def _fix(store: Store, rows: Rows, index: NDArray[np.intp], extra: list[Key], record: str) -> Rows:
    """Write the rows at `index`, remove `extra`; return the written rows as stored."""
    if extra:
        store.remove(extra)
    made = rows.take(index, rows.vectors[index])
    if not len(made):
        return made
    as_stored = made.vectors

    def record_of(stored: NDArray[Any]) -> str:
        nonlocal as_stored
        as_stored = stored
        return record

    store.write(made, record_of)
    return replace(made, vectors=as_stored)


def _differences(want: Clean, held: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp], list[Key]]:
    """Return indices into `want` of rows that are missing and that are changed, and keys that are too many."""
    keys, ours, theirs = want.rows.keys, want.rows.vectors, held.vectors
    extra: list[Key] = []
    if list(keys) == list(held.keys):
        at = there = np.arange(len(keys))
    else:
        place = {key: i for i, key in enumerate(held.keys)}
        at = np.array([place.get(key, -1) for key in keys], dtype=np.intp)
        there = np.flatnonzero(at >= 0)
        wanted = set(keys)
        extra = [key for key in held.keys if key not in wanted]
        ours, theirs = ours[there], theirs[at[there]]
    if ours.shape != theirs.shape:  # a target of another length: nothing in it is right
        return np.flatnonzero(at < 0), there, extra
    ours = ours.astype(np.float32, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        off = ours - theirs.astype(np.float32, copy=False)
        right = np.sqrt(np.vecdot(off, off)) <= want.tolerance[there] * np.sqrt(np.vecdot(ours, ours))
    return np.flatnonzero(at < 0), there[~right], extra  # NaN is never right
