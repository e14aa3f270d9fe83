"""One store out of the options of a command line: which one was named, and what goes with it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from faceblind._errors import UsageError
from faceblind.deploy.stores.lance import LanceStore
from faceblind.deploy.stores.postgres import PostgresStore
from faceblind.deploy.stores.qdrant import QdrantStore
from faceblind.erase import Projector


def open_store(
    projector: Projector,
    *,
    lancedb: Path | None = None,
    postgres: str | None = None,
    qdrant: str | None = None,
    table: str | None = None,
    collection: str | None = None,
    key: str | None = None,
    column: str | None = None,
    target: str | None = None,
    new_table: bool = False,
    take_over: bool = False,
) -> AbstractContextManager[Any]:
    """Open the one store that is named, with the defaults usual there (key ``id``, column ``vector`` or ``embedding``).

    An API key for Qdrant is read from the environment variable QDRANT_API_KEY.

    Raises
    ------
    UsageError
        None or several are named, its table is not, or an option is for another store.
    """
    named = {"--lancedb": lancedb, "--postgres": postgres, "--qdrant": qdrant}
    given = [option for option, value in named.items() if value is not None]
    if len(given) != 1:
        said = " and ".join(given) if given else "none"
        raise UsageError(f"name one store: --lancedb, --postgres or --qdrant (got {said})")
    _check_options(
        given[0],
        {
            "--table": table,
            "--collection": collection,
            "--key": key,
            "--new-table": new_table,
            "--take-over": take_over,
        },
    )
    if lancedb is not None and table is not None:
        return LanceStore.open(
            lancedb, projector, table=table, key=key or "id", column=column or "vector", target=target
        )
    if postgres is not None and table is not None:
        return PostgresStore.open(
            postgres,
            projector,
            table=table,
            key=key or "id",
            column=column or "embedding",
            target=target,
            new_table=new_table,
        )
    if qdrant is not None and collection is not None:
        return QdrantStore.open(
            qdrant,
            projector,
            collection=collection,
            column=column,
            target=target,
            api_key=os.environ.get("QDRANT_API_KEY"),
            take_over=take_over,
        )
    raise UsageError(f"{given[0]} needs {'--collection' if qdrant is not None else '--table'} NAME")


_FOR = {
    "--table": ("--lancedb", "--postgres"),
    "--key": ("--lancedb", "--postgres"),
    "--collection": ("--qdrant",),
    "--new-table": ("--postgres",),
    "--take-over": ("--qdrant",),
}


def _check_options(store: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        # a table for Qdrant is what a collection is called elsewhere: that it needs one is the better answer
        if value and store not in _FOR[option] and option not in {"--table", "--collection"}:
            raise UsageError(f"{option} is for {' and '.join(_FOR[option])}, not for {store}")
