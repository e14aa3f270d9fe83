from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import FormatError
from faceblind.data.meta import Fingerprint, TableMeta

text = st.text(max_size=8)
fingerprints = st.builds(
    Fingerprint,
    encoder=text,
    weights_sha256=text,
    dim=st.integers(1, 4096),
    pooling=text,
    preprocessing=text,
    precision=text,
    libraries=st.dictionaries(text, text, max_size=3),
)
metas = st.builds(
    TableMeta,
    encoder=st.none() | fingerprints,
    synthetic=st.booleans(),
    projector=st.none() | text,
)

SOME = Fingerprint(
    encoder="sscd",
    weights_sha256="ab",
    dim=512,
    pooling="gem",
    preprocessing="{}",
    precision="float32",
    libraries={"b": "2", "a": "1"},
)


@given(metas)
def test_json_round_trip(meta):
    assert TableMeta.from_json(meta.to_json()) == meta
    assert TableMeta.from_json(meta.to_json()).to_json() == meta.to_json()


def test_json_is_canonical():
    other = replace(SOME, libraries={"a": "1", "b": "2"})
    assert TableMeta(encoder=SOME).to_json() == TableMeta(encoder=other).to_json()
    assert TableMeta().to_json() == '{"encoder": null, "projector": null, "synthetic": false}'


def test_libraries_of_any_mapping_and_hash():
    view = replace(SOME, libraries=MappingProxyType({"a": "1"}))
    assert view.to_dict()["libraries"] == {"a": "1"}
    assert hash(view) == hash(SOME)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dim": 3}, ["dim: 512 != 3"]),
        ({"weights_sha256": "cd", "precision": "int8"}, ["weights_sha256: ab != cd", "precision: float32 != int8"]),
        ({"pooling": "cls"}, ["pooling: gem != cls"]),
        ({"preprocessing": "[]"}, ["preprocessing: {} != []"]),
        ({"encoder": "renamed", "libraries": {}}, []),
    ],
)
def test_what_makes_vectors_comparable(change, told):
    assert SOME.differs_from(replace(SOME, **change)) == told


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": "512"}, "dim must be int, got '512'"),
        ({"dim": True}, "dim must be int, got True"),
        ({"pooling": None}, "pooling must be str, got None"),
        ({"libraries": ["numpy"]}, "libraries must map names to versions"),
        ({"libraries": {"numpy": 2}}, "libraries must map names to versions"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_damaged_fingerprints(change, message):
    with pytest.raises(FormatError, match=f"not an encoder fingerprint: .*{message}"):
        Fingerprint.from_dict({**SOME.to_dict(), **change})


def test_fingerprint_with_a_missing_field():
    data = SOME.to_dict()
    del data["pooling"]
    with pytest.raises(FormatError, match="pooling"):
        Fingerprint.from_dict(data)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("", "damaged"),
        ("[]", "damaged"),
        ("null", "damaged"),
        ('{"encoder": null, "projector": null}', "'synthetic' is missing"),
        ('{"encoder": {}, "projector": null, "synthetic": false}', "not an encoder fingerprint"),
        ('{"encoder": 3, "projector": null, "synthetic": false}', "not an encoder fingerprint"),
        ('{"encoder": null, "projector": null, "synthetic": "false"}', "synthetic is 'false', not true or false"),
        ('{"encoder": null, "projector": 4, "synthetic": false}', "projector is 4, not text or null"),
    ],
)
def test_damaged_table_metadata(damaged, message):
    with pytest.raises(FormatError, match=f"'faceblind' is damaged: .*{message}" if message != "damaged" else message):
        TableMeta.from_json(damaged)


def test_fields_of_later_versions_are_ignored():
    data = json.loads(TableMeta(synthetic=True).to_json()) | {"later": 1}
    assert TableMeta.from_json(json.dumps(data)) == TableMeta(synthetic=True)


def test_differences_are_short_enough_to_read():
    ours = replace(SOME, weights_sha256="a" * 64, preprocessing='{"size": 320, "channels": "RGB"}')
    theirs = replace(SOME, weights_sha256="b" * 64, preprocessing='{"size": 112, "channels": "RGB"}')
    assert ours.differs_from(theirs) == [
        "weights_sha256: aaaaaaaaaaaa... != bbbbbbbbbbbb...",
        "preprocessing: size 320 != 112",
    ]
