"""LanceDB (embedded): a table of raw vectors to a new table with the same rows and columns.

A new table and not a new column: Lance adds a column without rewriting the others only through a package of its own, and
a table can be searched, indexed and dropped without touching the raw one. Every batch is one version of the new table,
appended as a whole; its record is metadata of the vector column. An append that is not yet recorded when the run dies is
merged over by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FaceblindError, MissingExtraError, OutputError, UsageError
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.data.tables.arrow import load_arrow
from faceblind.deploy.stores.base import Key, Rows, Source, StoreGoneError, digits
from faceblind.deploy.stores.lance_rows import Snapshot, length_of
from faceblind.deploy.stores.lock import file_lock
from faceblind.deploy.stores.meta import meta_in_text
from faceblind.erase import Projector

_MANY = 500  # keys in one condition


class LanceStore:
    """A table in a LanceDB folder. Open it with `open`."""

    shares_rows = False

    def __init__(self, db: Any, folder: Path, *, table: str, key: str, column: str, target: str) -> None:
        self._db, self._folder = db, folder
        self._name, self._key, self._column, self._target = table, key, column, target
        self._raw: Snapshot | None = None
        self._dim = 0
        self._held: Snapshot | None = None
        self._made: Any = None
        self._last: Key | None = None

    @classmethod
    def open(
        cls,
        folder: str | Path,
        projector: Projector,
        *,
        table: str,
        key: str = "id",
        column: str = "vector",
        target: str | None = None,
    ) -> Self:
        """Open a folder.

        Parameters
        ----------
        folder : path
            A folder on this machine; object stores are not supported, as nothing there keeps two runs apart.
        key : str
            A column of integers or text, without repeats; all keys are held in memory.
        target : str, optional
            Name of the new table; ``TABLE_clean_`` and eight digits of the projector's digest when missing.

        Raises
        ------
        DataError, UsageError, MissingExtraError
            No such folder or table; the target is the table itself; lancedb is not installed.
        """
        place = Path(folder)
        if not place.is_dir():
            raise DataError(f"{folder} is not a folder: give the folder that lancedb.connect gets (on this machine)")
        chosen = target or f"{table}_clean_{digits(projector.digest)}"
        if chosen == table:
            raise UsageError(f"the target {chosen!r} is the raw table itself: give another --target")
        store = cls(_connect(place), place, table=table, key=key, column=column, target=chosen)
        if not store._path(table).is_dir():
            tables = ", ".join(sorted(path.stem for path in place.glob("*.lance"))) or "none"
            raise DataError(f"{place} has no table {table!r}; its tables: {tables}")
        return store

    def close(self) -> None:
        """Let go of the tables."""
        self._raw = self._held = self._made = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self) -> Source:
        """See `Store.describe`."""
        where = self._where
        with self._asking(f"reading {where}"):
            table = self._db.open_table(self._name)
            dim, dtype = length_of(table, self._column, where)
            if self._key not in table.schema.names:
                raise DataError(
                    f"{where} has no column {self._key!r} to name rows by: give --key; it has {', '.join(table.schema.names)}"
                )
            others = [f.name for f in table.schema if f.name != self._column and _is_vector(f.type)]
            said = f"the columns {', '.join(others)} also hold vectors and are copied as they are: identity may be read from them"
            metric = next((i.distance_type for i in _indices(table, self._column)), None)
            return Source(
                name=f"{self._name}.{self._column}",
                target=self._target,
                rows=table.count_rows(),
                dim=dim,
                dtype=dtype,
                metric=metric,
                meta=meta_of_lance(table, self._column, where),
                cautions=(said,) if others else (),
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock file in the folder."""
        with file_lock(self._folder / f".{self._target}.faceblind-lock", self._target):
            yield

    def record(self) -> str | None:
        """See `Store.record`."""
        if not self._path(self._target).is_dir():
            return None
        with self._asking(f"opening {self._target}"):
            try:
                table = self._db.open_table(self._target)
            except ValueError:  # a folder without a version: the run died while making it
                return None
            field = table.schema.field(self._column) if self._column in table.schema.names else None
        text = ((field.metadata or {}) if field is not None else {}).get(METADATA_KEY.encode())
        if text is None:
            raise OutputError(f"{self._target} is there and was not made by faceblind: give another --target")
        self._use(table)
        return str(text.decode())

    def create(self, *, dim: int, dtype: str, record: str) -> None:
        """Make the empty table: the same columns, with clean vectors in the place of raw ones."""
        pa = load_arrow("rewriting a LanceDB table")
        with self._asking(f"making {self._target}"):
            schema = self._db.open_table(self._name).schema
            element = pa.float16() if dtype == "float16" else pa.float32()
            made = pa.field(self._column, pa.list_(element, dim), metadata={METADATA_KEY: record})
            schema = schema.set(schema.get_field_index(self._column), made)
            # what the raw table says of itself (the encoder to embed queries with, for one) is not true of the new one
            meta = meta_in_text(record, self._target).to_json()
            self._use(self._db.create_table(self._target, schema=schema.with_metadata({METADATA_KEY: meta})))

    def read(self, after: Key | None, rows: int) -> Rows:
        """See `Store.read`; a pass from the beginning takes the newest version of the table."""
        with self._asking(f"reading {self._where}"):
            if self._raw is None or after is None:
                table = self._db.open_table(self._name)
                self._raw = Snapshot(table, self._key, self._where)
                self._dim, _ = length_of(table, self._column, self._where)
            return self._raw.rows(self._column, self._dim, after, None, rows)

    def read_back(self, after: Key | None, upto: Key | None) -> Rows:
        """See `Store.read_back`."""
        with self._asking(f"reading {self._target}"):
            if self._held is None or after is None:
                self._held = Snapshot(self._db.open_table(self._target), self._key, self._target)
            held = self._held.rows(self._column, None, after, upto, None)
        return Rows(held.keys, held.vectors, last=held.last)

    def write(self, rows: Rows, record: Callable[[NDArray[Any]], str]) -> None:
        """Append a version, or merge where keys are there already; then keep the record in a version of its own."""
        pa = load_arrow("rewriting a LanceDB table")
        with self._asking(f"writing {self._target}"):
            columns = []
            for field in self._made.schema:
                if field.name == self._column:
                    flat = pa.array(np.ascontiguousarray(rows.vectors).ravel(), field.type.value_type)
                    columns.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
                else:
                    columns.append(rows.carried[field.name].combine_chunks())
            batch = pa.Table.from_arrays(columns, schema=self._made.schema)
            keys: list[Any] = list(rows.keys)  # all integers or all text, so they have an order
            if self._last is None or min(keys) > self._last:
                self._made.add(batch)
            else:
                merge = self._made.merge_insert(self._key).when_matched_update_all().when_not_matched_insert_all()
                merge.execute(batch)
            self._last = max(keys if self._last is None else [*keys, self._last])
            self._keep(record(rows.vectors))

    def remove(self, keys: Sequence[Key]) -> None:
        """See `Store.remove`."""
        with self._asking(f"removing rows from {self._target}"):
            for start in range(0, len(keys), _MANY):
                names = ", ".join(_literal(key) for key in keys[start : start + _MANY])
                self._made.delete(f"`{self._key}` IN ({names})")

    def save(self, record: str) -> None:
        """See `Store.save`."""
        with self._asking(f"writing {self._target}"):
            self._keep(record)

    def count(self) -> int:
        """See `Store.count`."""
        with self._asking(f"counting {self._target}"):
            return int(self._db.open_table(self._target).count_rows())

    def switch(self) -> tuple[str, ...]:
        """See `Store.switch`."""
        return (
            f"open_table({self._target!r}) instead of open_table({self._name!r}), and create its indexes",
            "search it with queries put through the same projector (QueryProjector)",
            f"when nothing reads {self._name} any more, drop it: identity can be read from it until then",
        )

    def undo(self) -> tuple[str, ...]:
        """See `Store.undo`."""
        return (f"lancedb.connect({str(self._folder)!r}).drop_table({self._target!r})",)

    @property
    def _where(self) -> str:
        return f"LanceDB table {self._name}"

    def _path(self, table: str) -> Path:
        return self._folder / f"{table}.lance"

    def _use(self, table: Any) -> None:
        self._made = table
        self._last = Snapshot(table, self._key, self._target).last

    def _keep(self, record: str) -> None:
        self._made.update_field_metadata({"path": self._column, "metadata": {METADATA_KEY: record}})

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except FaceblindError:
            raise
        except (RuntimeError, ValueError, OSError) as error:  # what lancedb raises, whatever happened
            said = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise StoreGoneError(f"LanceDB in {self._folder} failed ({what}): {said}") from error


def meta_of_lance(table: Any, column: str, where: str) -> TableMeta:
    """Read what a LanceDB table says about a column of vectors; empty when it says nothing."""
    if column not in table.schema.names:
        raise DataError(f"{where} has no column {column!r}; it has {', '.join(table.schema.names)}")
    of_field = (table.schema.field(column).metadata or {}).get(METADATA_KEY.encode())
    of_table = (table.schema.metadata or {}).get(METADATA_KEY.encode())
    return meta_in_text(of_field or of_table, where)


def meta_of_folder(folder: Path, table: str, column: str) -> TableMeta:
    """Read what a table in a LanceDB folder says about a column of vectors."""
    if not (folder / f"{table}.lance").is_dir():
        raise DataError(f"{folder} has no table {table!r}")
    return meta_of_lance(_connect(folder).open_table(table), column, f"LanceDB table {table}")


def _connect(folder: Path) -> Any:
    try:
        import lancedb
    except ImportError as error:
        raise MissingExtraError("lancedb", "lancedb", "rewriting a LanceDB table") from error
    return lancedb.connect(folder)


def _is_vector(kind: Any) -> bool:
    pa = load_arrow("rewriting a LanceDB table")
    listed = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(listed and pa.types.is_floating(kind.value_type))


def _indices(table: Any, column: str) -> list[Any]:
    stats = [table.index_stats(index.name) for index in table.list_indices() if column in index.columns]
    return [stat for stat in stats if stat is not None and stat.distance_type]


def _literal(key: Key) -> str:
    return str(key) if isinstance(key, int) else "'" + key.replace("'", "''") + "'"
