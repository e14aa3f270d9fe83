"""The hub, as users meet it: downloads, the cache, no network, gates and wrong names. A server here plays the hub."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_checkpoints import photo, write_checkpoint
from hub_server import COMMIT, REFUSALS, hub

from faceblind._errors import EncoderError
from faceblind.encoders import open_encoder
from faceblind.encoders.hub_files import hub_folder, local_folder

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
huggingface_hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("PIL")

PHOTO = photo()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    write_checkpoint(folder, "dinov3-vit")
    (folder / "modeling_evil.py").write_text("raise SystemExit('remote code was run')\n")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the library to an empty cache; it reads its environment variables only when it is first imported."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    huggingface_hub.utils.disable_progress_bars()
    return tmp_path / "cache"


@pytest.fixture
def served(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    with hub({"owner/small": source}) as (address, asked):
        point_to(monkeypatch, address)
        yield asked


def point_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def unreachable(monkeypatch: pytest.MonkeyPatch) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    point_to(monkeypatch, address)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the library waits between its tries
    return address


def test_only_what_is_needed_is_fetched_and_once(
    served: list[str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = open_encoder("hf:owner/small")
    assert np.array_equal(fetched.embed([PHOTO]), open_encoder(f"hf:{source}").embed([PHOTO]))
    assert fetched.fingerprint.encoder == "hf:owner/small"
    got = [path for path in served if path.startswith("GET /owner/small/")]
    needed = {"config.json", "preprocessor_config.json", "model.safetensors"}
    assert {path.rpartition("/")[2] for path in got} == needed
    open_encoder("hf:owner/small")
    open_encoder(f"hf:owner/small@{COMMIT}")
    assert [path for path in served if path.startswith("GET /owner/small/")] == got
    unreachable(monkeypatch)  # what is in the cache needs no hub
    assert open_encoder("hf:owner/small").fingerprint == fetched.fingerprint


def test_the_cache_offline(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = cache / "models--owner--small" / "snapshots" / COMMIT
    shutil.copytree(source, snapshot)
    (cache / "models--owner--small/refs").mkdir()
    (cache / "models--owner--small/refs/main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    made = open_encoder("hf:owner/small")
    assert np.array_equal(made.embed([PHOTO]), open_encoder(f"hf:{source}").embed([PHOTO]))
    with pytest.raises(EncoderError, match=r"owner/other is not in the hub's cache .* and HF_HUB_OFFLINE is set"):
        open_encoder("hf:owner/other")
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"owner/small is not in the hub's cache .* and HF_HUB_OFFLINE is set"):
        open_encoder("hf:owner/small")


@pytest.mark.parametrize(
    ("repository", "message"),
    [
        ("open/gone", "there is no repository open/gone at .*, or it is not public: check its name"),
        ("open/missing", "there is no repository open/missing"),
        (
            "gated/stranger",
            "gated/stranger is gated .*: accept the licence at .*/gated/stranger, then run: hf auth login",
        ),
        ("gated/refused", "gated/refused is gated and this account has no access to it"),
        ("open/token", r"refuses access to open/token .401.: check your token, or run: hf auth login"),
        ("open/forbidden", r"refuses access to open/forbidden .403."),
        ("open/broken", r"the model hub answers 500 .*not in its cache .*try again, or name a folder"),
    ],
)
def test_refusals(served: list[str], monkeypatch: pytest.MonkeyPatch, repository: str, message: str) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(EncoderError, match=message) as info:
        open_encoder(f"hf:{repository}")
    assert "\n" not in str(info.value)
    assert repository in REFUSALS


def test_a_gated_name_says_where_to_accept(served: list[str]) -> None:
    with pytest.raises(EncoderError, match="is gated and this account has no access to it: ask Meta"):
        hub_folder("gated/stranger", how_to_get="ask Meta")


def test_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = unreachable(monkeypatch)
    expected = f"the model hub cannot be reached ({address}) and facebook/dinov2-small is not in its cache ({cache})"
    with pytest.raises(EncoderError, match=re.escape(expected) + ": try again, or name a folder"):
        open_encoder("dinov2-small")


def test_a_revision_that_is_not_there(served: list[str]) -> None:
    with pytest.raises(EncoderError, match="owner/small has no such revision"):
        open_encoder("hf:owner/small@v9")


def test_names_of_nothing(served: list[str]) -> None:
    for name, message in (
        ("hf:", "'hf:' names no checkpoint; write hf:OWNER/NAME or hf:FOLDER"),
        ("hf:a/b/c", "'a/b/c' is neither a folder here nor the name of a repository"),
        ("hf:bad name", "'bad name' is neither a folder here nor"),
    ):
        with pytest.raises(EncoderError, match=message):
            open_encoder(name)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "owner/part has no config.json, so it is no transformers checkpoint: name another repository"),
        ("preprocessor_config.json", "owner/part has no preprocessor_config.json, which says how photographs are prep"),
        ("model.safetensors", r"owner/part has no weights .none of model.safetensors, "),
    ],
)
def test_repositories_that_lack_files(
    source: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str
) -> None:
    part = Path(shutil.copytree(source, tmp_path / "part"))
    (part / missing).unlink()
    with hub({"owner/part": part}) as (address, _):
        point_to(monkeypatch, address)
        with pytest.raises(EncoderError, match=message):
            open_encoder("hf:owner/part")
    with pytest.raises(EncoderError, match=f"{part} has no .*: put the files of the model's repository into {part}"):
        local_folder(part)


def test_a_full_disk(served: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(
        EncoderError, match=r"owner/small cannot be stored in the hub's cache .*: No space left on device"
    ):
        open_encoder("hf:owner/small")


def test_an_index_cannot_point_outside(source: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "sly"))
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    for weight_map, message in (
        ({"a": "../model.safetensors"}, "names a file outside its folder: '../model.safetensors'"),
        ({}, "has no 'weight_map'"),
    ):
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(EncoderError, match=message):
            local_folder(folder)
