"""One column of a PostgreSQL table and the place for its clean vectors: names, types and the statements made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from faceblind._errors import DataError, UsageError
from faceblind.deploy.stores import pgcatalog as catalog
from faceblind.deploy.stores.base import Key, Rows
from faceblind.deploy.stores.pgvalues import KINDS, Kind

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

STATE = "faceblind_rewrites"
"""Table that keeps the records, in the schema of the source."""


@dataclass(frozen=True, eq=False)
class PgTable:
    """Names as the user gave them, and what the catalogue says about them (looked up once, when first asked for)."""

    db: psycopg.Connection[Any]
    dsn: str
    name: str
    key: str
    column: str
    target: str
    new_table: bool

    @cached_property
    def table(self) -> catalog.Table:
        """The table of raw vectors."""
        return catalog.require_table(self.db, self.name)

    @cached_property
    def raw(self) -> catalog.Column:
        """The column of raw vectors."""
        return catalog.require_column(self.db, self.table, self.column)

    @cached_property
    def kind(self) -> Kind:
        """How raw vectors are read."""
        return catalog.kind_of(self.raw, f"{self.name}.{self.column}")

    @cached_property
    def key_column(self) -> catalog.Column:
        """The column of keys, checked."""
        column = catalog.require_column(self.db, self.table, self.key)
        catalog.check_key(self.db, self.table, column, self.key, self.say("{table}"))
        return column

    @cached_property
    def key_type(self) -> str:
        """How keys are sent."""
        return catalog.KEY_TYPES[self.key_column.type_name]

    @cached_property
    def pgvector(self) -> str | None:
        """Schema of pgvector's types; None when the extension is not installed."""
        return catalog.pgvector_schema(self.db) if self.kind.array else self.raw.type_schema

    @cached_property
    def dim(self) -> int:
        """Length of a raw vector: what the type says, or the first vector."""
        if self.raw.size > 0:
            return self.raw.size
        row = self.one(self.say("SELECT {send}({column}) FROM {table} WHERE {column} IS NOT NULL LIMIT 1"))
        if row is None:
            raise DataError(f"{self.name}.{self.column} holds no vectors: there is nothing to rewrite")
        return self.kind.dim_of(row[0])

    @property
    def home_name(self) -> str:
        """Schema and name of the table that gets the clean vectors."""
        return f"{self.table.schema}.{self.target if self.new_table else self.table.name}"

    @property
    def target_column(self) -> str:
        """Name of the column that gets them."""
        return self.column if self.new_table else self.target

    @property
    def label(self) -> str:
        """Name of the target under which its record is kept."""
        return f"{self.home_name}.{self.target_column}"

    def written_kind(self, dtype: str) -> Kind:
        """Return the type of the clean column; raises `UsageError` when the database has none for this precision."""
        schema = self.pgvector
        if dtype == "float32":
            return KINDS["_float4" if schema is None else "vector"]
        if schema is None or not catalog.has_type(self.db, schema, "halfvec"):
            raise UsageError("this database has no type for float16 (halfvec needs pgvector 0.7): use --dtype float32")
        return KINDS["halfvec"]

    def declared(self, dtype: str, dim: int) -> sql.Composable:
        """Return the clean column's type as SQL."""
        from psycopg import sql

        kind = self.written_kind(dtype)
        if self.pgvector is None:
            return sql.SQL("real[]")
        return sql.SQL("{}({})").format(sql.Identifier(self.pgvector, kind.name), sql.Literal(dim))

    def say(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Compose a statement; ``{table}``, ``{home}``, ``{state}``, ``{key}``, ``{column}``, ``{target}``, ``{send}``."""
        from psycopg import sql

        names: dict[str, sql.Composable] = {
            "table": sql.Identifier(self.table.schema, self.table.name),
            "home": sql.Identifier(*self.home_name.split(".", 1)),
            "state": sql.Identifier(self.table.schema, STATE),
            "key": sql.Identifier(self.key),
            "column": sql.Identifier(self.column),
            "target": sql.Identifier(self.target_column),
            "send": self._send(self.kind) if "{send}" in text else sql.SQL(""),
        }
        return sql.SQL(text).format(**names | more)

    def one(self, statement: Any, *values: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row, in binary."""
        row: tuple[Any, ...] | None = self.db.cursor(binary=True).execute(statement, values).fetchone()
        return row

    def plain(self, *, home: bool) -> str:
        """Return a table's name as to be typed into psql."""
        return self.say("{home}" if home else "{table}").as_string(self.db)

    def read(self, after: Key | None, upto: Key | None, rows: int | None, *, clean: bool) -> Rows:
        """Read raw or clean rows in key order, between keys; None is an open end."""
        from psycopg import sql

        where, column, kind, dim = f"{self.name}.{self.column}", self.column, self.kind, 0
        if clean:
            made = catalog.require_column(self.db, catalog.require_table(self.db, self.home_name), self.target_column)
            where, column, kind, dim = self.label, self.target_column, catalog.kind_of(made, self.label), made.size
        parts = ["{held} IS NOT NULL"] if clean else []
        values: list[Any] = []
        for key, sign in ((after, ">"), (upto, "<=")):
            if key is not None:
                parts.append(f"{{key}} {sign} %s::{self.key_type}")
                values.append(key)
        condition = f" WHERE {' AND '.join(parts)}" if parts else ""
        limit = f" LIMIT {int(rows)}" if rows is not None else ""
        statement = "SELECT {key}, {send_held}({held}) FROM {from_} " + condition + " ORDER BY {key}" + limit
        found = (
            self.db.cursor(binary=True)
            .execute(
                self.say(
                    statement,
                    held=sql.Identifier(column),
                    send_held=self._send(kind),
                    from_=self.say("{home}" if clean else "{table}"),
                ),
                values,
            )
            .fetchall()
        )
        keys = [key if isinstance(key, int) else str(key) for key, _ in found]
        full = [i for i, (_, blob) in enumerate(found) if blob is not None]
        blobs = [found[i][1] for i in full]
        empty = tuple(key for key, (_, blob) in zip(keys, found, strict=True) if blob is None)
        named = [keys[i] for i in full] if empty else keys
        if dim <= 0:
            dim = self.dim if not clean else (kind.dim_of(blobs[0]) if blobs else 0)
        vectors = kind.decode(blobs, named, dim, where) if blobs else np.empty((0, dim), np.float32)
        return Rows(named, vectors, empty=empty, last=keys[-1] if keys else None)

    def keep(self, record: str) -> None:
        """Put the record into the table of records."""
        self.db.execute(
            self.say("INSERT INTO {state} VALUES (%s, %s) ON CONFLICT (target) DO UPDATE SET record = excluded.record"),
            [self.label, record],
        )

    def comment(self, record: str) -> None:
        """Make the record the comment of the clean column, where it stays when the column is renamed."""
        from psycopg import sql

        self.db.execute(self.say("COMMENT ON COLUMN {home}.{target} IS {words}", words=sql.Literal(record)))

    def _send(self, kind: Kind) -> sql.Composable:
        from psycopg import sql

        return sql.Identifier("pg_catalog" if kind.array else str(self.pgvector), kind.send)


def keys_as_sent(keys: Sequence[Key], key_type: str) -> list[Any]:
    """Return keys as the driver sends them in binary."""
    from uuid import UUID

    return [UUID(str(key)) for key in keys] if key_type == "uuid" else list(keys)
