"""Qdrant, a server or a local folder: a collection to a new collection with the same points.

Ids, payloads and other vectors are copied. Points are upserted, so a batch that is written twice is the same batch. A
collection for cosine scales what it is given to unit length, so rows are read back right after they are written and the
checksum is of what the store holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, OutputError, UsageError
from faceblind.data.meta import METADATA_KEY
from faceblind.deploy.stores.base import Key, Rows, Source, StoreGoneError, digits
from faceblind.deploy.stores.lock import holder, is_dead, refusal
from faceblind.deploy.stores.meta import meta_in_text
from faceblind.deploy.stores.qdrant_config import choose, create, dtype_of
from faceblind.deploy.stores.qdrant_place import asking, connect_qdrant, shown
from faceblind.erase import Projector

_RECORD = "faceblind_rewrite"
_LOCK = "faceblind_lock"
_BYTES = 8 << 20  # of JSON a request, of which a server takes 32 MiB
_DIGITS = 22  # bytes of a number in JSON at most, nearly


class QdrantStore:
    """A collection of Qdrant. Open it with `open`, or give a client of your own."""

    shares_rows = False

    def __init__(
        self,
        client: Any,
        projector: Projector,
        *,
        collection: str,
        column: str | None = None,
        target: str | None = None,
        take_over: bool = False,
        place: str = "Qdrant",
    ) -> None:
        self._client, self._place = client, place
        self._name, self._column = collection, column
        self._target = target or f"{collection}_clean_{digits(projector.digest)}"
        self._take_over = take_over
        options = client.init_options
        self._local = bool(options.get("path")) or options.get("location") == ":memory:"
        self._dtype = "float32"
        self._token: dict[str, Any] = {}
        if self._target == collection:
            raise UsageError(f"the target {collection!r} is the raw collection itself: give another --target")

    @classmethod
    def open(
        cls,
        place: str,
        projector: Projector,
        *,
        collection: str,
        column: str | None = None,
        target: str | None = None,
        api_key: str | None = None,
        take_over: bool = False,
    ) -> Self:
        """Connect to a server or open a local folder.

        Parameters
        ----------
        place : str
            ``http://host:6333`` or the folder of a local collection.
        column : str, optional
            Name of the vector, where points have several.
        target : str, optional
            Name of the new collection; ``COLLECTION_clean_`` and eight digits of the projector's digest when missing.
        take_over : bool
            Go on although a run on another machine, known to be dead, still holds the lock.

        Raises
        ------
        StoreGoneError, UsageError, MissingExtraError
            Nothing answers, or another process has the folder; the target is the collection itself; qdrant-client is
            not installed.
        """
        client = connect_qdrant(place, api_key)
        try:
            return cls(
                client,
                projector,
                collection=collection,
                column=column,
                target=target,
                take_over=take_over,
                place=shown(place),
            )
        except UsageError:
            client.close()
            raise

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self) -> Source:
        """See `Store.describe`."""
        with asking(self._place, f"reading about {self._name}"):
            if not self._client.collection_exists(self._name):
                names = ", ".join(sorted(c.name for c in self._client.get_collections().collections)) or "none"
                raise DataError(f"{self._place} has no collection {self._name!r}; its collections: {names}")
            info = self._client.get_collection(self._name)
            name, params = choose(info, self._column, self._name)
            rows = self._client.count(self._name, exact=True).count
        self._column = name
        others = [n for n in info.config.params.vectors if n != name] if name else []
        others += list(info.config.params.sparse_vectors or {})
        said = f"the vectors {', '.join(others)} are copied as they are: identity may be read from them"
        return Source(
            name=f"{self._name}.{name}" if name else self._name,
            target=self._target,
            rows=rows,
            dim=params.size,
            dtype=dtype_of(params),
            metric=params.distance.value,
            scales=params.distance.value == "Cosine",
            exact=params.distance.value != "Cosine" or not self._local,
            meta=meta_in_text(json.dumps(info.config.metadata or {}), f"collection {self._name}"),
            cautions=(said,) if others else (),
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Put a lock with host and process into the metadata of the target; a local folder has its own lock."""
        self._token = holder()
        with asking(self._place, "taking the lock"):
            if self._client.collection_exists(self._target):
                held = self._metadata().get(_LOCK) or {}
                if held and not is_dead(held) and not self._take_over and held.get("pid") != self._token["pid"]:
                    raise refusal(self._target, held, "run with --take-over")
                self._client.update_collection(self._target, metadata={_LOCK: self._token})
                held = self._metadata().get(_LOCK) or {}
                if held.get("token") != self._token["token"]:
                    raise refusal(self._target, held, "run with --take-over")
        try:
            yield
        except BaseException:
            with suppress(StoreGoneError):  # the first error is the one to tell
                self._unlock()
            raise
        self._unlock()

    def record(self) -> str | None:
        """See `Store.record`."""
        with asking(self._place, f"reading about {self._target}"):
            if not self._client.collection_exists(self._target):
                return None
            text = self._metadata().get(_RECORD)
        if text is None:
            raise OutputError(f"{self._target} is there and was not made by faceblind: give another --target")
        self._dtype = json.loads(text)["dtype"]
        return str(text)

    def create(self, *, dim: int, dtype: str, record: str) -> None:
        """Make an empty collection with the settings of the raw one."""
        self._dtype = dtype
        with asking(self._place, f"making {self._target}"):
            info = self._client.get_collection(self._name)
            create(
                self._client, self._target, info, self._column, dim, dtype, {**_as_metadata(record), _LOCK: self._token}
            )
            if _RECORD not in self._metadata():
                self._client.delete_collection(self._target)
                raise OutputError(f"{self._place} keeps no metadata of collections: Qdrant 1.16 or later is needed")

    def read(self, after: Key | None, rows: int) -> Rows:
        """See `Store.read`."""
        with asking(self._place, f"reading {self._name}"):
            points, _ = self._client.scroll(
                self._name, limit=rows + 1, offset=after, with_vectors=True, with_payload=True
            )
        points = [point for point in points if point.id != after][:rows]
        return self._rows(points, np.float32)

    def read_back(self, after: Key | None, upto: Key | None) -> Rows:
        """See `Store.read_back`."""
        found: list[Any] = []
        at = after
        while True:
            with asking(self._place, f"reading {self._target}"):
                points, following = self._client.scroll(
                    self._target, limit=1024, offset=at, with_vectors=self._wanted, with_payload=False
                )
            found += [p for p in points if p.id != after and (upto is None or _order(p.id) <= _order(upto))]
            if following is None or (upto is not None and _order(following) > _order(upto)):
                break
            at = following
        rows = self._rows(found, np.dtype(self._dtype))
        return Rows(rows.keys, rows.vectors, last=rows.last)

    def write(self, rows: Rows, record: Callable[[NDArray[Any]], str]) -> None:
        """Upsert, read back and then keep the record."""
        from qdrant_client import models

        stored = np.empty_like(rows.vectors)
        step = max(1, _BYTES // (_DIGITS * rows.vectors.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            keys, vectors = list(rows.keys[part]), rows.vectors[part].astype(np.float32).tolist()
            points = []
            for key, vector, (payload, others) in zip(keys, vectors, rows.carried[part], strict=True):
                whole = {**others, self._column: vector} if self._column else vector
                points.append(models.PointStruct(id=key, vector=whole, payload=payload))
            with asking(self._place, f"writing {self._target}"):
                self._client.upsert(self._target, points, wait=True)
                held = self._client.retrieve(self._target, keys, with_vectors=self._wanted, with_payload=False)
            by_key = {point.id: self._vector(point) for point in held}
            if by_key.keys() != set(keys):
                raise StoreGoneError(f"{self._place} does not return what was just written to {self._target}")
            stored[part] = [by_key[key] for key in keys]
        self.save(record(stored))

    def remove(self, keys: Sequence[Key]) -> None:
        """See `Store.remove`."""
        from qdrant_client import models

        with asking(self._place, f"removing points from {self._target}"):
            self._client.delete(self._target, models.PointIdsList(points=list(keys)), wait=True)

    def save(self, record: str) -> None:
        """Keep the record as metadata of the collection."""
        with asking(self._place, "keeping the record"):
            self._client.update_collection(self._target, metadata=_as_metadata(record))

    def count(self) -> int:
        """See `Store.count`."""
        with asking(self._place, "counting"):
            return int(self._client.count(self._target, exact=True).count)

    def switch(self) -> tuple[str, ...]:
        """See `Store.switch`."""
        return (
            f"search {self._target} instead of {self._name} (or point an alias at it), with queries put through the same "
            "projector (QueryProjector)",
            f"when nothing reads {self._name} any more, delete it: identity can be read from it until then",
        )

    def undo(self) -> tuple[str, ...]:
        """See `Store.undo`."""
        return (f"client.delete_collection({self._target!r})",)

    @property
    def _wanted(self) -> Any:
        return [self._column] if self._column else True

    def _metadata(self) -> dict[str, Any]:
        return self._client.get_collection(self._target).config.metadata or {}

    def _unlock(self) -> None:
        with asking(self._place, "giving up the lock"):
            if self._client.collection_exists(self._target):
                self._client.update_collection(self._target, metadata={_LOCK: {}})

    def _vector(self, point: Any) -> Any:
        held = point.vector
        return (held or {}).get(self._column) if self._column else (held or None)

    def _rows(self, points: Sequence[Any], dtype: Any) -> Rows:
        full = [point for point in points if self._vector(point) is not None]
        lengths = {len(self._vector(point)) for point in full}
        vectors = (
            np.array([self._vector(point) for point in full], dtype=np.float32).astype(dtype)
            if full
            else np.empty((0, 0), dtype)
        )
        if len(lengths) > 1:
            raise DataError(f"{self._name}: vectors have different lengths: {sorted(lengths)}")
        others = [
            {name: value for name, value in p.vector.items() if name != self._column} if self._column else {}
            for p in full
        ]
        return Rows(
            [point.id for point in full],
            vectors,
            empty=tuple(point.id for point in points if self._vector(point) is None),
            last=points[-1].id if points else None,
            carried=list(zip((point.payload for point in full), others, strict=True)),
        )


def _as_metadata(record: str) -> dict[str, Any]:
    return {_RECORD: record, METADATA_KEY: json.loads(record)[METADATA_KEY]}


def _order(key: Key) -> tuple[str, int]:
    """Return what Qdrant sorts ids by: numbers first, then UUIDs."""
    return (key, 0) if isinstance(key, str) else ("", key)
