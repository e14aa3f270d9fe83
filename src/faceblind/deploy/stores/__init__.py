"""Rewriting vector stores: raw vectors are read, clean ones are written beside them, and nothing is overwritten."""

from faceblind.deploy.stores.base import Key, Rows, Source, Store, StoreGoneError
from faceblind.deploy.stores.lance import LanceStore
from faceblind.deploy.stores.opening import open_store
from faceblind.deploy.stores.postgres import PostgresStore
from faceblind.deploy.stores.qdrant import QdrantStore
from faceblind.deploy.stores.rewrite import BATCH_ROWS, RewriteReport, rewrite

__all__ = [
    "BATCH_ROWS",
    "Key",
    "LanceStore",
    "PostgresStore",
    "QdrantStore",
    "RewriteReport",
    "Rows",
    "Source",
    "Store",
    "StoreGoneError",
    "open_store",
    "rewrite",
]
