"""PostgreSQL, with pgvector or without: a column of vectors to a new column of the same table, or to a new table.

Rows are read in the order of a unique key, a batch at a time (keyset pagination, so no long transaction holds back
vacuum). A batch is copied into a temporary table and joined in, in one transaction with the record of how far the run
got: whatever stops it, rows and record agree. An advisory lock keeps a second run off the same target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from numpy.typing import NDArray

from faceblind._errors import OutputError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.deploy.stores import pgcatalog as catalog
from faceblind.deploy.stores.base import Key, Rows, Source, StoreGoneError, digits
from faceblind.deploy.stores.meta import meta_in_text
from faceblind.deploy.stores.pgtable import STATE, PgTable, keys_as_sent
from faceblind.erase import Projector

_LOCK_SPACE = 0x66616365  # "face": keeps our advisory locks apart from others
_NAME_BYTES = 63


class PostgresStore:
    """A column of a PostgreSQL table. Open it with `open`, close it with `close` or ``with``.

    Target names end in the first eight digits of the projector's digest.
    """

    shares_rows = True

    def __init__(self, table: PgTable) -> None:
        self._t = table
        self.shares_rows = not table.new_table
        self._dtype: str | None = None

    @classmethod
    def open(
        cls,
        dsn: str,
        projector: Projector,
        *,
        table: str,
        key: str = "id",
        column: str = "embedding",
        target: str | None = None,
        new_table: bool = False,
        lock_timeout_s: float = 10,
    ) -> Self:
        """Connect.

        Parameters
        ----------
        dsn : str
            ``postgresql://user@host/database`` or ``host=... dbname=...``; a password is better kept in PGPASSWORD or
            ~/.pgpass. Never repeated in messages with its password.
        table : str
            With its schema or without, as spelled in the catalogue.
        key : str
            A column of integers, UUIDs or text that is never NULL and has a unique index.
        target : str, optional
            Name of the new column (with `new_table`, of the new table).
        new_table : bool
            Write a table of key and vector instead of a column: the raw table is then not written at all.
        lock_timeout_s : float
            Give up when another session holds a row or the table for longer.

        Raises
        ------
        StoreGoneError, UsageError, MissingExtraError
            No connection; an address that cannot be read or a name that is too long; psycopg is not installed.
        """
        connection = catalog.connect(dsn)
        default = f"{table.split('.')[-1] if new_table else column}_clean_{digits(projector.digest)}"
        chosen = target or default
        if len(chosen.encode()) > _NAME_BYTES:
            connection.close()
            raise UsageError(f"{chosen!r} is longer than the {_NAME_BYTES} bytes of a PostgreSQL name: give a --target")
        with catalog.asking(dsn, "setting the lock timeout"):
            connection.execute(f"SET lock_timeout = {int(1000 * lock_timeout_s)}")
        return cls(PgTable(connection, dsn, table, key, column, chosen, new_table))

    def close(self) -> None:
        """Close the connection."""
        self._t.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self) -> Source:
        """See `Store.describe`."""
        t = self._t
        name = f"{t.name}.{t.column}"
        with self._asking(f"reading about {name}"):
            if t.target == t.column and not t.new_table:
                raise UsageError(f"the target {t.target!r} is the raw column itself: give another --target")
            kind, _ = t.kind, t.key_type
            (rows,) = t.one(t.say("SELECT count(*) FROM {table}")) or (0,)
            index = catalog.index_of(t.db, t.table, t.raw)
            cautions = []
            if t.pgvector is None:
                cautions.append(
                    "the vector extension is not installed in this database: clean vectors are stored as real[], which "
                    "has no distance operators and no index"
                )
            return Source(
                name=name,
                target=t.label,
                rows=int(rows),
                dim=t.dim,
                dtype=kind.dtype,
                metric=" ".join(index) if index else None,
                meta=meta_in_text(t.raw.comment, f"the comment on {name}"),
                cautions=tuple(cautions),
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an advisory lock on the target; the server lets go of it when this connection ends."""
        t = self._t
        with self._asking("taking the lock"):
            (free,) = t.one("SELECT pg_try_advisory_lock(%s, hashtext(%s))", _LOCK_SPACE, t.label) or (False,)
        if not free:
            raise StoreGoneError(f"another run is writing {t.label}: wait for it, or end its session")
        try:
            yield
        finally:
            if not t.db.closed:
                with self._asking("giving up the lock"):
                    t.db.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [_LOCK_SPACE, t.label])

    def record(self) -> str | None:
        """See `Store.record`."""
        t = self._t
        with self._asking("reading the record"):
            home = catalog.find_table(t.db, t.home_name)
            if home is None or not (t.new_table or catalog.find_column(t.db, home, t.target_column)):
                return None
            known = catalog.find_table(t.db, f"{t.table.schema}.{STATE}") is not None
            row = t.one(t.say("SELECT record FROM {state} WHERE target = %s"), t.label) if known else None
        if row is None:
            raise OutputError(f"{t.label} is there and was not made by faceblind: give another --target")
        return str(row[0])

    def create(self, *, dim: int, dtype: str, record: str) -> None:
        """Add the column or table; raises `UsageError` when the database lacks the type for it."""
        t = self._t
        with self._asking(f"making {t.label}"), t.db.transaction():
            declared = t.declared(dtype, dim)
            t.db.execute(t.say("CREATE TABLE IF NOT EXISTS {state} (target text PRIMARY KEY, record text NOT NULL)"))
            if t.new_table:  # "AS" keeps the key's type and collation, so that both tables order alike
                t.db.execute(t.say("CREATE TABLE {home} AS SELECT {key} FROM {table} WITH NO DATA"))
                t.db.execute(t.say("ALTER TABLE {home} ADD PRIMARY KEY ({key})"))
            t.db.execute(t.say("ALTER TABLE {home} ADD COLUMN {target} {declared}", declared=declared))
            t.keep(record)
            t.comment(record)

    def read(self, after: Key | None, rows: int) -> Rows:
        """See `Store.read`."""
        with self._asking(f"reading {self._t.name}"):
            return self._t.read(after, None, rows, clean=False)

    def read_back(self, after: Key | None, upto: Key | None) -> Rows:
        """See `Store.read_back`."""
        with self._asking(f"reading {self._t.label}"):
            return self._t.read(after, upto, None, clean=True)

    def write(self, rows: Rows, record: Callable[[NDArray[Any]], str]) -> None:
        """Copy into a temporary table and join it in, with the record, in one transaction."""
        t = self._t
        dtype = str(rows.vectors.dtype)
        self._dtype = dtype
        if t.new_table:
            join = (
                "INSERT INTO {home} ({key}, {target}) SELECT key, vector FROM pg_temp.faceblind_batch "
                "ON CONFLICT ({key}) DO UPDATE SET {target} = excluded.{target}"
            )
        else:
            join = "UPDATE {home} AS h SET {target} = s.vector FROM pg_temp.faceblind_batch AS s WHERE h.{key} = s.key"
        staging = (
            "CREATE TEMP TABLE faceblind_batch ON COMMIT DROP AS "
            "SELECT {key} AS key, NULL::{declared} AS vector FROM {table} WITH NO DATA"
        )
        with self._asking(f"writing {t.label}"), t.db.transaction(), t.db.cursor() as cursor:
            cursor.execute(t.say(staging, declared=t.declared(dtype, rows.vectors.shape[1])))
            blobs = t.written_kind(dtype).encode(rows.vectors)
            pairs = zip(keys_as_sent(rows.keys, t.key_type), blobs, strict=True)
            with cursor.copy("COPY pg_temp.faceblind_batch FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types([t.key_type, "bytea"])  # a vector's bytes are sent as they are
                for pair in pairs:  # no statement can be asked meanwhile
                    copy.write_row(pair)
            cursor.execute(t.say(join))
            t.keep(record(rows.vectors))

    def remove(self, keys: Sequence[Key]) -> None:
        """See `Store.remove`."""
        t = self._t
        if t.new_table:
            statement = "DELETE FROM {home} WHERE {key} = ANY(%s::{type}[])"
        else:
            statement = "UPDATE {home} SET {target} = NULL WHERE {key} = ANY(%s::{type}[])"
        from psycopg import sql

        with self._asking(f"removing rows from {t.label}"):
            t.db.execute(t.say(statement, type=sql.SQL(t.key_type)), [list(keys)])

    def save(self, record: str) -> None:
        """Keep the record in the table of records and, for whoever reads the column, as its comment."""
        with self._asking("keeping the record"), self._t.db.transaction():
            self._t.keep(record)
            self._t.comment(record)

    def count(self) -> int:
        """See `Store.count`."""
        with self._asking("counting"):
            (count,) = self._t.one(self._t.say("SELECT count({target}) FROM {home}")) or (0,)
        return int(count)

    def switch(self) -> tuple[str, ...]:
        """See `Store.switch`."""
        t = self._t
        with self._asking("reading about the index"):
            home, raw = t.plain(home=True), t.plain(home=False)
            target = t.say("{target}").as_string(t.db)
            made = catalog.require_column(t.db, catalog.require_table(t.db, t.home_name), t.target_column)
            method, family = catalog.index_of(t.db, t.table, t.raw) or ("hnsw", "vector_cosine_ops")
        steps = []
        if made.type_name in {"vector", "halfvec"}:
            operators = f"{made.type_name}_{family.split('_', 1)[1]}"
            steps.append(f"CREATE INDEX CONCURRENTLY ON {home} USING {method} ({target} {operators});")
        steps.append(f"search {home}.{target} with queries put through the same projector (QueryProjector)")
        steps.append(
            f"when nothing reads {t.column} of {raw} any more, drop it: identity can be read from it until then"
        )
        return tuple(steps)

    def undo(self) -> tuple[str, ...]:
        """See `Store.undo`."""
        from psycopg import sql

        t = self._t
        home = t.plain(home=True)
        drop = f"DROP TABLE {home}" if t.new_table else t.say("ALTER TABLE {home} DROP COLUMN {target}").as_string(t.db)
        label = sql.Literal(t.label)
        forget = t.say("DELETE FROM {state} WHERE target = {label}", label=label).as_string(t.db)
        return (f"{drop};", f"{forget};")

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        with catalog.asking(self._t.dsn, what):
            yield


def meta_of_postgres(dsn: str, table: str, column: str) -> TableMeta:
    """Read what the comment on a column says about its vectors."""
    connection = catalog.connect(dsn)
    try:
        with catalog.asking(dsn, f"reading about {table}.{column}"):
            found = catalog.require_column(connection, catalog.require_table(connection, table), column)
    finally:
        connection.close()
    return meta_in_text(found.comment, f"the comment on {table}.{column}")
