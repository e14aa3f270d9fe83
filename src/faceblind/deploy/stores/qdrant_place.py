"""Reaching a Qdrant: connecting, naming it without passwords, and one line for whatever its client raises."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from faceblind._errors import DataError, FaceblindError, MissingExtraError
from faceblind.data.meta import TableMeta
from faceblind.deploy.stores.base import StoreGoneError
from faceblind.deploy.stores.meta import meta_in_text


def connect_qdrant(place: str, api_key: str | None = None) -> Any:
    """Return a client of a server or a local folder, which must exist."""
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise MissingExtraError("qdrant-client", "qdrant", "rewriting a Qdrant collection") from error
    with asking(shown(place), "connecting"):
        if place.startswith(("http://", "https://")):
            return QdrantClient(url=place, api_key=api_key, check_compatibility=False)
        if not (Path(place) / "meta.json").is_file():
            raise DataError(
                f"{place} is neither a URL nor the folder of a local Qdrant: write http://host:6333 or a path"
            )
        return QdrantClient(path=place)


def meta_of_qdrant(client: Any, collection: str, place: str = "Qdrant") -> TableMeta:
    """Read what a collection's metadata says about its vectors."""
    with asking(place, f"reading about {collection}"):
        if not client.collection_exists(collection):
            raise DataError(f"{place} has no collection {collection!r}")
        metadata = client.get_collection(collection).config.metadata or {}
    return meta_in_text(json.dumps(metadata), f"collection {collection}")


def shown(place: str) -> str:
    """Return an address without a user's name and password."""
    if not place.startswith(("http://", "https://")):
        return f"Qdrant in {place}"
    parts = urlsplit(place)
    return f"Qdrant at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


@contextmanager
def asking(place: str, what: str) -> Iterator[None]:
    """Turn what the client raises into one line about the store."""
    from qdrant_client.http.exceptions import ApiException

    try:
        yield
    except FaceblindError:
        raise
    except (ApiException, RuntimeError, ValueError, sqlite3.Error, OSError) as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise StoreGoneError(f"{place} failed ({what}): {said}") from error
