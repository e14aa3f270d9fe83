"""What PostgreSQL's catalogue says about a column of vectors and its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faceblind._errors import DataError, MissingExtraError, OutputError, UsageError
from faceblind.deploy.stores.base import StoreGoneError
from faceblind.deploy.stores.pgvalues import KINDS, Kind

if TYPE_CHECKING:
    import psycopg

KEY_TYPES = {"int2": "int2", "int4": "int4", "int8": "int8", "uuid": "uuid", "text": "text", "varchar": "text"}
"""Types of keys that are read, and how they are sent."""

_COLUMN = """
SELECT a.attnum, t.typname, n.nspname, a.atttypmod, a.attnotnull, format_type(a.atttypid, a.atttypmod),
       col_description(a.attrelid, a.attnum)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = %s AND a.attname = %s AND a.attnum > 0 AND NOT a.attisdropped"""
_UNIQUE = """
SELECT count(*) FROM pg_index WHERE indrelid = %s AND indisunique AND indisvalid AND indnkeyatts = 1
AND indkey[0] = %s AND indpred IS NULL"""
_INDEX = """
SELECT m.amname, o.opcname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
JOIN pg_opclass o ON o.oid = i.indclass[0]
WHERE i.indrelid = %s AND i.indkey[0] = %s AND m.amname IN ('hnsw', 'ivfflat') ORDER BY c.relname LIMIT 1"""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as the catalogue has it."""

    number: int
    type_name: str
    type_schema: str
    size: int
    """Dimensions for pgvector types, -1 when the type does not say."""
    not_null: bool
    declared: str
    comment: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, found."""

    oid: int
    schema: str
    name: str
    kind: str


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Open a connection in which every statement is its own transaction unless a block says otherwise."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError("psycopg", "pgvector", "rewriting a PostgreSQL table") from error
    place = shown(dsn)
    try:
        whole = dsn if "connect_timeout" in dsn else psycopg.conninfo.make_conninfo(dsn, connect_timeout=10)
        return psycopg.connect(whole, autocommit=True)
    except psycopg.Error as error:
        raise StoreGoneError(f"cannot connect to {place}: {first_line(error, dsn)}") from None


def shown(dsn: str) -> str:
    """Return a connection string in words, without its password.

    Raises
    ------
    UsageError
        It cannot be read; it is not repeated, as it may hold a password.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:
        raise UsageError(
            "the PostgreSQL address cannot be read: write postgresql://user@host:5432/database or 'host=... dbname=...' "
            "(it is not repeated here, as it may hold a password)"
        ) from None
    said = " ".join(f"{name}={parts[name]}" for name in ("host", "port", "dbname", "user") if parts.get(name))
    return f"PostgreSQL ({said or 'default connection'})"


def first_line(error: Exception, dsn: str) -> str:
    """Return the first line of what the server said, with any password taken out."""
    from psycopg.conninfo import conninfo_to_dict

    text = (str(error).strip().splitlines() or ["no reason given"])[0]
    password = conninfo_to_dict(dsn).get("password")
    return text.replace(str(password), "***") if password else text


@contextmanager
def asking(dsn: str, what: str) -> Iterator[None]:
    """Turn what the driver raises into one line about the store."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise StoreGoneError(
            f"{what} is locked by another session of {shown(dsn)}: end it, or run again later"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreGoneError(f"lost {shown(dsn)} while it was in use: {first_line(error, dsn)}") from error
    except psycopg.Error as error:
        raise OutputError(f"{shown(dsn)} refused ({what}): {first_line(error, dsn)}") from error


def find_table(connection: psycopg.Connection[Any], name: str) -> Table | None:
    """Find a table by a name with or without its schema; None when there is none."""
    from psycopg import sql

    quoted = sql.Identifier(*name.split(".")).as_string(connection)
    row = connection.execute(
        "SELECT c.oid, n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = to_regclass(%s)",
        [quoted],
    ).fetchone()
    return None if row is None else Table(oid=row[0], schema=row[1], name=row[2], kind=row[3])


def find_column(connection: psycopg.Connection[Any], table: Table, name: str) -> Column | None:
    """Find a column; None when there is none."""
    row = connection.execute(_COLUMN, [table.oid, name]).fetchone()
    if row is None:
        return None
    names = ("number", "type_name", "type_schema", "size", "not_null", "declared")
    return Column(**dict(zip(names, row, strict=False)), comment=row[6] or "")


def require_table(connection: psycopg.Connection[Any], name: str) -> Table:
    """Find a table or raise `DataError`."""
    table = find_table(connection, name)
    if table is None:
        raise DataError(f"there is no table {name!r} in this database: write schema.table, as spelled in the catalogue")
    if table.kind not in {"r", "p"}:
        raise DataError(f"{name} is not a table: give the table that holds the vectors")
    return table


def require_column(connection: psycopg.Connection[Any], table: Table, name: str) -> Column:
    """Find a column or raise `DataError` that lists those there are."""
    column = find_column(connection, table, name)
    if column is None:
        rows = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [table.oid],
        ).fetchall()
        raise DataError(f"{table.name} has no column {name!r}; it has {', '.join(row[0] for row in rows)}")
    return column


def kind_of(column: Column, where: str) -> Kind:
    """Return how a column's vectors are read; raises `DataError` when it holds none."""
    kind = KINDS.get(column.type_name)
    if kind is None:
        raise DataError(f"{where} is {column.declared}; it must be vector, halfvec, real[] or double precision[]")
    return kind


def check_key(connection: psycopg.Connection[Any], table: Table, column: Column, key: str, quoted: Any) -> None:
    """Raise `DataError` unless a column can order the table: of a type that is read, never NULL and unique by an index."""
    from psycopg import sql

    if column.type_name not in KEY_TYPES:
        raise DataError(f"the key {key!r} is {column.declared}; it must be an integer, uuid or text column")
    if not column.not_null:
        missing = connection.execute(
            sql.SQL("SELECT count(*) FROM {} WHERE {} IS NULL").format(quoted, sql.Identifier(key))
        ).fetchone()
        if missing and missing[0]:
            raise DataError(f"{missing[0]:,} rows of {table.name} have no {key!r}: every row needs a key")
    (unique,) = connection.execute(_UNIQUE, [table.oid, column.number]).fetchone() or (0,)
    if not unique:
        repeated = connection.execute(
            sql.SQL("SELECT {0}::text FROM {1} GROUP BY {0} HAVING count(*) > 1 ORDER BY {0} LIMIT 5").format(
                sql.Identifier(key), quoted
            )
        ).fetchall()
        if repeated:
            names = ", ".join(row[0] for row in repeated)
            raise DataError(f"the key {key!r} of {table.name} is not unique; repeated are {names}")
        raise DataError(
            f"the key {key!r} of {table.name} has no unique index: CREATE UNIQUE INDEX ON {table.name} ({key})"
        )


def index_of(connection: psycopg.Connection[Any], table: Table, column: Column) -> tuple[str, str] | None:
    """Return method and operator class of a vector index on a column, e.g. ``("hnsw", "vector_cosine_ops")``."""
    row = connection.execute(_INDEX, [table.oid, column.number]).fetchone()
    return None if row is None else (row[0], row[1])


def pgvector_schema(connection: psycopg.Connection[Any]) -> str | None:
    """Return the schema that the pgvector extension is installed in, or None."""
    row = connection.execute(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    return None if row is None else str(row[0])


def has_type(connection: psycopg.Connection[Any], schema: str, name: str) -> bool:
    """Whether a type is there (halfvec came with pgvector 0.7)."""
    row = connection.execute(
        "SELECT 1 FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = %s AND t.typname = %s",
        [schema, name],
    ).fetchone()
    return row is not None
