"""The settings of a Qdrant collection, taken over for the clean one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faceblind._errors import DataError


def choose(info: Any, column: str | None, collection: str) -> tuple[str, Any]:
    """Return name ("" for the only, unnamed vector) and parameters of the vector to rewrite.

    Raises
    ------
    DataError
        No such vector, several and none was named, or one that is a matrix.
    """
    vectors = info.config.params.vectors
    if not isinstance(vectors, Mapping):
        if column:
            raise DataError(f"the vector of {collection} has no name: leave out --column {column}")
        name, params = "", vectors
    else:
        if column is None and len(vectors) != 1:
            raise DataError(f"{collection} has the vectors {', '.join(vectors) or 'none'}: say which with --column")
        name = column or next(iter(vectors))
        if name not in vectors:
            raise DataError(f"{collection} has no vector {name!r}; it has {', '.join(vectors)}")
        params = vectors[name]
    if params is None:
        raise DataError(f"{collection} holds no dense vectors")
    if params.multivector_config is not None:
        raise DataError(f"the vector of {collection} is a matrix (multivector): rewrite plain vectors only")
    return name, params


def dtype_of(params: Any) -> str:
    """Return the precision of clean vectors by default."""
    return "float16" if params.datatype is not None and params.datatype.value == "float16" else "float32"


def create(
    client: Any, target: str, info: Any, column: str | None, dim: int, dtype: str, metadata: Mapping[str, Any]
) -> None:
    """Create a collection like another one but for one vector's length and precision."""
    from qdrant_client import models

    params = info.config.params

    def resized(old: Any) -> Any:
        return old.model_copy(update={"size": dim, "datatype": models.Datatype(dtype)})

    if isinstance(params.vectors, Mapping):
        vectors: Any = {name: resized(old) if name == column else old for name, old in params.vectors.items()}
    else:
        vectors = resized(params.vectors)
    hnsw = info.config.hnsw_config.model_dump(exclude_none=True)
    known = models.HnswConfigDiff.model_fields
    client.create_collection(
        target,
        vectors_config=vectors,
        sparse_vectors_config=params.sparse_vectors,
        shard_number=params.shard_number,
        replication_factor=params.replication_factor,
        write_consistency_factor=params.write_consistency_factor,
        on_disk_payload=params.on_disk_payload,
        hnsw_config=models.HnswConfigDiff(**{key: value for key, value in hnsw.items() if key in known}),
        quantization_config=info.config.quantization_config,
        metadata=dict(metadata),
    )
    for name, index in (info.payload_schema or {}).items():
        client.create_payload_index(target, name, index.params or index.data_type)
