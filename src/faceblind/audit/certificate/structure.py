"""A small JSON Schema check: enough of the standard for the schemas of this package, without another dependency.

Known are type, properties, required, additionalProperties, items, minItems, maxItems, const, enum, anyOf, minimum, maximum,
pattern, minLength and local references; a test holds the shipped schema to these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

KNOWN = frozenset(
    {
        "$schema",
        "$id",
        "$defs",
        "$ref",
        "title",
        "description",
        "type",
        "const",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "pattern",
        "minLength",
    }
)


@cache
def certificate_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``faceblind.certificate/1``."""
    text = files("faceblind.audit").joinpath("schema/certificate-1.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def problems(value: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
    """List where a value departs from a schema, as ``"path: what is wrong"``; empty when nowhere."""
    return list(_check(value, schema, schema, path))


def _check(value: Any, schema: Any, root: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(schema, bool):
        if not schema:
            yield f"{path or 'the whole'}: is not expected here"
        return
    if "$ref" in schema:
        yield from _check(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    here = path or "the whole"
    kinds = schema.get("type")
    if kinds is not None and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{here}: is {_name(value)}, not {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
        return
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{here}: is {value!r}, not {schema['const']!r}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{here}: is {value!r}, none of {', '.join(map(repr, schema['enum']))}"
    if "anyOf" in schema:
        tried = [list(_check(value, one, root, path)) for one in schema["anyOf"]]
        if all(tried):
            yield from min(tried, key=len)
    if _is(value, "number"):
        if "minimum" in schema and value < schema["minimum"]:
            yield f"{here}: is {value}, less than {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            yield f"{here}: is {value}, more than {schema['maximum']}"
    elif isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{here}: is {value[:80]!r}, which does not match {schema['pattern']}"
        if len(value) < schema.get("minLength", 0):
            yield f"{here}: is empty"
    elif isinstance(value, Mapping):
        yield from _members(value, schema, root, path)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{here}: has {len(value)} entries"
        for index, item in enumerate(value):
            yield from _check(item, schema.get("items", True), root, f"{path}[{index}]")


def _members(value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path or 'the whole'}: lacks {name!r}"
    named = schema.get("properties", {})
    for name, inner in value.items():
        below = f"{path}/{name}" if path else name
        yield from _check(inner, named.get(name, schema.get("additionalProperties", True)), root, below)


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case _:
            return not isinstance(value, bool) and isinstance(value, int | float)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _name(value: Any) -> str:
    for kind in ("null", "boolean", "integer", "number", "string", "array"):
        if _is(value, kind):
            return kind
    return "object"
