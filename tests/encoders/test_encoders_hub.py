"""Hub checkpoints: the vectors of the original release, whatever way the checkpoint is found."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_checkpoints import KINDS, photo, write_checkpoint

from faceblind._errors import EncoderError, MissingExtraError, UsageError
from faceblind.encoders import encoders, hub_models, open_encoder
from faceblind.encoders.hub_models import MODELS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")

PHOTO = photo()
TINY_EXPECTATION = {"hidden_size": 32, "num_hidden_layers": 2}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging = transformers.utils.logging
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    made: dict[str, tuple[Path, Any]] = {}

    def get(kind: str) -> tuple[Path, Any]:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            made[kind] = folder, write_checkpoint(folder, kind)
        return made[kind]

    return get


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def pixels(encoder: Any) -> Any:
    return torch.from_numpy(encoder.prepare(PHOTO))[None]


def layer_norm(x: Any, module: Any) -> Any:
    """Normalise without torch's own layer norm."""
    x = x.double()
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + module.eps).sqrt()
    return x * module.weight.double() + module.bias.double()


def as_released_positions(model: Any) -> Any:
    """Put DINOv2's own interpolation, with its offset of 0.1, in place of the library's."""
    table = model.embeddings.position_embeddings
    grid = table[:, 1:].reshape(1, 37, 37, -1).permute(0, 3, 1, 2)
    ratio = float(16 + 0.1) / 37
    placed = torch.nn.functional.interpolate(grid, scale_factor=(ratio, ratio), mode="bicubic")
    placed = placed.permute(0, 2, 3, 1).reshape(1, 256, -1)
    model.embeddings.interpolate_pos_encoding = lambda *_: torch.cat((table[:, :1], placed), dim=1)
    return model


def pooled_by_hand(kind: str, model: Any, batch: Any) -> np.ndarray:
    """Pool from the hidden states that the library exposes, step by step."""
    family = kind.partition("-")[0]
    with torch.no_grad():
        if family == "clip":
            tower = model.vision_model
            last = tower(pixel_values=batch, output_hidden_states=True).hidden_states[-1]
            vector = layer_norm(last[:, 0], tower.post_layernorm) @ model.visual_projection.weight.double().T
        elif family == "siglip2":
            tower = model.vision_model
            tokens = tower(pixel_values=batch).last_hidden_state
            vector = attention_pooled(tower.head, tokens)
        elif kind == "dinov3-convnext":
            feature_map = model(pixel_values=batch, output_hidden_states=True).hidden_states[-1]
            vector = layer_norm(feature_map.double().mean((2, 3)), model.layer_norm)
        else:
            last = model(pixel_values=batch, output_hidden_states=True).hidden_states[-1]
            vector = layer_norm(last[:, 0], model.layernorm if family == "dinov2" else model.norm)
    return vector[0].numpy()


def attention_pooled(head: Any, tokens: Any) -> Any:
    """Let one learned query attend to all tokens, then the residual MLP."""
    attention = head.attention
    width, heads = tokens.shape[-1], attention.num_heads
    q, k, v = (
        (x.double() @ w.double().T + b.double()).reshape(-1, heads, width // heads).transpose(0, 1)
        for x, w, b in zip(
            (head.probe[0], tokens[0], tokens[0]),
            attention.in_proj_weight.chunk(3),
            attention.in_proj_bias.chunk(3),
            strict=True,
        )
    )
    weights = (q @ k.transpose(1, 2) / (width // heads) ** 0.5).softmax(-1)
    out = (weights @ v).transpose(0, 1).reshape(1, width)
    out = out @ attention.out_proj.weight.double().T + attention.out_proj.bias.double()
    return out + head.mlp(layer_norm(out, head.layernorm).float()).double()


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_the_releases(checkpoint: Callable[[str], tuple[Path, Any]], kind: str) -> None:
    folder, model = checkpoint(kind)
    if kind in {"dinov2", "dinov2-swiglu"}:
        model = as_released_positions(model)
    encoder = open_encoder(f"hf:{folder}")
    vector = encoder.embed([PHOTO])[0]
    batch = pixels(encoder)
    with torch.no_grad():
        if kind.startswith(("clip", "siglip2")):
            reference = model.get_image_features(pixel_values=batch).pooler_output
        else:
            reference = model(pixel_values=batch).pooler_output
    assert vector.dtype == np.float32
    assert vector.shape == (KINDS[kind].dim,) == (encoder.dim,)
    assert cosine(vector, reference[0].numpy()) > 0.999999
    np.testing.assert_allclose(vector, pooled_by_hand(kind, model, batch), rtol=1e-4, atol=1e-4)
    assert abs(np.linalg.norm(vector) - 1) > 0.1  # no release scales to unit length


def test_positions_of_dinov2_are_not_the_librarys(
    checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    # The library interpolates to 16 x 16 without the authors' offset; large random positions show it.
    def enlarge(tensors: dict[str, Any]) -> None:
        tensors["embeddings.position_embeddings"] *= 20

    folder = edited(checkpoint("dinov2")[0], tmp_path / "rough", enlarge)
    encoder = open_encoder(f"hf:{folder}")
    with torch.no_grad():
        library = transformers.Dinov2Model.from_pretrained(folder)(pixel_values=pixels(encoder)).pooler_output
    vector = encoder.embed([PHOTO])[0]
    assert np.abs(vector - library[0].numpy()).max() > 3e-4
    with torch.no_grad():
        released = as_released_positions(transformers.Dinov2Model.from_pretrained(folder))
        reference = released(pixel_values=pixels(encoder)).pooler_output
    np.testing.assert_allclose(vector, reference[0].numpy(), atol=1e-5)
    assert "positions offset 0.1" in encoder.fingerprint.pooling


def test_dinov2_at_its_own_size_needs_no_interpolation(
    checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    source, _ = checkpoint("dinov2")
    folder = Path(shutil.copytree(source, tmp_path / "large"))
    keys = KINDS["dinov2"].preprocessing | {"size": {"shortest_edge": 518}, "crop_size": 518}
    (folder / "preprocessor_config.json").write_text(json.dumps(keys))
    encoder = open_encoder(f"hf:{folder}")
    with torch.no_grad():
        library = transformers.Dinov2Model.from_pretrained(folder)(pixel_values=pixels(encoder)).pooler_output
    assert cosine(encoder.embed([PHOTO])[0], library[0].numpy()) > 0.999999


def test_quick_gelu_follows_the_checkpoint_and_shows(checkpoint: Callable[[str], tuple[Path, Any]]) -> None:
    openai = open_encoder(f"hf:{checkpoint('clip-openai')[0]}")
    laion = open_encoder(f"hf:{checkpoint('clip-laion')[0]}")  # the same weights
    assert np.abs(openai.embed([PHOTO]) - laion.embed([PHOTO])).max() > 1e-3
    assert openai.fingerprint.weights_sha256 == laion.fingerprint.weights_sha256
    assert [difference.split(":")[0] for difference in openai.fingerprint.differs_from(laion.fingerprint)] == [
        "pooling"
    ]
    assert "(quick_gelu, " in openai.fingerprint.pooling
    assert "(gelu, " in laion.fingerprint.pooling


def test_fingerprint(checkpoint: Callable[[str], tuple[Path, Any]]) -> None:
    import hashlib

    folder, _ = checkpoint("dinov3-vit")
    made = open_encoder(f"hf:{folder}").fingerprint
    assert made.encoder == f"hf:{folder.name}"
    assert made.weights_sha256 == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert made.precision == "float32"
    assert made.pooling == "class token after the final layer norm (gelu, eps 1e-05, 4 heads, patch 16, rope 100)"
    steps = json.loads(made.preprocessing)
    assert (steps["resize"], steps["size"], steps["interpolation"]) == ("squash", [224, 224], "bilinear")
    assert made.libraries["attention"] == "sdpa"
    assert {"torch", "transformers", "pillow", "numpy"} <= set(made.libraries)


def known(monkeypatch: pytest.MonkeyPatch, name: str, **expected: Any) -> None:
    """Let a name promise the tiny architecture; all else stays as users have it."""
    (model,) = (model for model in MODELS if model.name == name)
    tiny = replace(model, dim=0, expected=dict(model.expected) | TINY_EXPECTATION | expected)
    entries = tuple(tiny.entry() if entry.info.name == name else entry for entry in hub_models.ENTRIES)
    monkeypatch.setattr(hub_models, "ENTRIES", entries)


def test_a_name_with_weights_in_a_folder(
    checkpoint: Callable[[str], tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = checkpoint("clip-openai")
    known(monkeypatch, "clip-vit-b32-openai", projection_dim=24)
    named = open_encoder("clip-vit-b32-openai", weights=folder)
    around = open_encoder("clip-vit-b32-openai", weights=folder / "model.safetensors")
    assert named.fingerprint.encoder == "clip-vit-b32-openai"
    assert np.array_equal(named.embed([PHOTO]), around.embed([PHOTO]))
    assert np.array_equal(named.embed([PHOTO]), open_encoder(f"hf:{folder}").embed([PHOTO]))


def test_laion_l14_is_fed_as_it_was_trained(
    checkpoint: Callable[[str], tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its file is said to have had CLIP's mean; open_clip says 0.5, with which it was trained.
    known(monkeypatch, "clip-vit-l14-laion2b", projection_dim=24, patch_size=32)
    made = open_encoder("clip-vit-l14-laion2b", weights=checkpoint("clip-laion")[0])
    assert json.loads(made.fingerprint.preprocessing)["mean"] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("kind", "name", "expected", "message"),
    [
        ("dinov2", "dinov2-small-registers", {}, "architecture 'dinov2', 'dinov2-small-registers' is 'dinov2_with_reg"),
        ("clip-laion", "clip-vit-b32-openai", {"projection_dim": 24}, "hidden_act gelu, .* has quick_gelu"),
        ("clip-openai", "clip-vit-b16-openai", {"projection_dim": 24}, "patch_size 32, 'clip-vit-b16-openai' has 16"),
    ],
)
def test_a_name_refuses_another_architecture(
    checkpoint: Callable[[str], tuple[Path, Any]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    name: str,
    expected: dict[str, Any],
    message: str,
) -> None:
    known(monkeypatch, name, **expected)
    with pytest.raises(EncoderError, match=message):
        open_encoder(name, weights=checkpoint(kind)[0])


def test_true_sizes_are_promised(checkpoint: Callable[[str], tuple[Path, Any]]) -> None:
    with pytest.raises(EncoderError, match="has hidden_size 32, 'dinov2-small' has 384"):
        open_encoder("dinov2-small", weights=checkpoint("dinov2")[0])


@pytest.mark.parametrize("kind", ["clip-openai", "dinov3-convnext"])
def test_pickled_encoders_open_again(
    checkpoint: Callable[[str], tuple[Path, Any]], kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, _ = checkpoint(kind)
    monkeypatch.chdir(folder.parent)
    encoder = open_encoder(f"hf:{folder.name}", threads=1)
    data = pickle.dumps(encoder)
    assert len(data) < 4000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(data)
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.embed([PHOTO]), encoder.embed([PHOTO]))


def test_an_encoder_that_changed_since_it_was_pickled_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "dinov3-vit")
    data = pickle.dumps(open_encoder(f"hf:{tmp_path}"))
    write_checkpoint(tmp_path, "dinov3-vit", seed=1)
    with pytest.raises(EncoderError, match=r"is not the same here as where it was first opened .weights_sha256: "):
        pickle.loads(data)


def test_bfloat16_is_another_encoder_but_near(checkpoint: Callable[[str], tuple[Path, Any]]) -> None:
    folder, _ = checkpoint("dinov3-vit")
    full, half = open_encoder(f"hf:{folder}"), open_encoder(f"hf:{folder}", precision="bfloat16")
    assert half.fingerprint.precision == "bfloat16"
    assert half.fingerprint.differs_from(full.fingerprint) == ["precision: bfloat16 != float32"]
    a, b = full.embed([PHOTO])[0], half.embed([PHOTO])[0]
    assert b.dtype == np.float32
    assert 0.99 < cosine(a, b) < 1
    assert not np.array_equal(a, b)


def test_shards_and_torch_archives(checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    source, model = checkpoint("siglip2")
    whole = open_encoder(f"hf:{source}")
    for name, options in (("shards", {"max_shard_size": "30KB"}), ("one", {})):
        model.save_pretrained(tmp_path / name, **options)
        shutil.copy(source / "preprocessor_config.json", tmp_path / name)
    assert (tmp_path / "shards/model.safetensors.index.json").exists()
    sharded = open_encoder(f"hf:{tmp_path}/shards")
    assert sharded.fingerprint.weights_sha256 != whole.fingerprint.weights_sha256
    assert np.array_equal(sharded.embed([PHOTO]), whole.embed([PHOTO]))
    (tmp_path / "one/model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "one/pytorch_model.bin")
    assert np.array_equal(open_encoder(f"hf:{tmp_path}/one").embed([PHOTO]), whole.embed([PHOTO]))
    next((tmp_path / "shards").glob("model-00002*")).unlink()
    with pytest.raises(EncoderError, match=r"lacks model-00002-of-\d+.safetensors, named in model.safetensors.index"):
        open_encoder(f"hf:{tmp_path}/shards")


def test_a_pickle_that_would_run_code_is_refused(checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    source, _ = checkpoint("dinov2")
    folder = Path(shutil.copytree(source, tmp_path / "evil"))
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.cls_token": _Evil(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match=r"the weights in .*pytorch_model.bin. are damaged or incomplete"):
        open_encoder(f"hf:{folder}")
    assert not (tmp_path / "ran").exists()


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def edited(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Copy a checkpoint with other tensors in it."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(source, target))
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "clip-openai",
            lambda t: t.pop("visual_projection.weight"),
            "does not fit its config.json; it lacks visual_projection.weight: get the whole checkpoint",
        ),
        ("dinov2", lambda t: [t.pop(k) for k in list(t) if ".1." in k], "it lacks .* and 1[0-9] more"),
        (
            "dinov3-vit",
            lambda t: t.update({"norm.weight": torch.ones(40)}),
            r"wrong shape for norm.weight \[40\] for \[32\]",
        ),
        (
            "dinov2-registers",
            lambda t: t.update({"embeddings.extra": torch.ones(3)}),
            "tensors that its architecture does not use: embeddings.extra",
        ),
        ("siglip2", lambda t: t.pop("vision_model.head.probe"), "it lacks .*head.probe"),
    ],
)
def test_tensors_that_do_not_fit(
    checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path, kind: str, change: Any, message: str
) -> None:
    folder = edited(checkpoint(kind)[0], tmp_path / "edited", change)
    with pytest.raises(EncoderError, match=message):
        open_encoder(f"hf:{folder}")


def test_a_truncated_file(checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint("dinov2")[0], tmp_path / "cut"))
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(
            EncoderError, match=r"the weights in .*model.safetensors. are damaged or incomplete"
        ) as info:
            open_encoder(f"hf:{folder}")
        assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "config.json is not JSON"),
        ("[]", "config.json is not a JSON object"),
        ('{"model_type": "resnet"}', "architecture 'resnet' .*known are clip, .*export others to ONNX"),
        ("{}", "architecture 'None'"),
        ('{"model_type": "siglip2"}', "NaFlex.*take one of fixed resolution"),
        ('{"model_type": "dinov2", "hidden_size": "wide"}', "config.json of .* cannot be used: .*hidden_size"),
    ],
)
def test_configurations_that_cannot_be_used(
    checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path, config: str, message: str
) -> None:
    folder = Path(shutil.copytree(checkpoint("dinov2")[0], tmp_path / "c"))
    (folder / "config.json").write_text(config)
    with pytest.raises(EncoderError, match=message) as info:
        open_encoder(f"hf:{folder}")
    assert "\n" not in str(info.value)


def test_a_tower_without_a_pooling_head(checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    def headless(tensors: dict[str, Any]) -> None:
        for name in [name for name in tensors if name.startswith("vision_model.head.")]:
            del tensors[name]

    folder = edited(checkpoint("siglip2")[0], tmp_path / "headless", headless)
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["vision_use_head"] = False
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderError, match="has no pooling head"):
        open_encoder(f"hf:{folder}")


def test_options(checkpoint: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    folder, _ = checkpoint("dinov2")
    name = f"hf:{folder}"
    for options, error, message in (
        ({"precision": "half"}, UsageError, "precision must be one of float32, bfloat16, float16, got 'half'"),
        ({"precision": "float16"}, UsageError, "float16 is for GPUs: on the CPU use float32, or bfloat16"),
        ({"device": "gpu"}, UsageError, "device must be cpu, cuda or cuda:N, got 'gpu'"),
        ({"threads": 0}, UsageError, "threads must be at least 1, got 0"),
        ({"weights": folder}, UsageError, "takes no weights"),
        ({"face": "largest"}, UsageError, "takes no face"),
    ):
        with pytest.raises(error, match=message):
            open_encoder(name, **options)
    with pytest.raises(EncoderError, match=r"no such folder of weights: .*nothing"):
        open_encoder("dinov2-small", weights=tmp_path / "nothing")
    (tmp_path / "w.bin").touch()
    with pytest.raises(EncoderError, match=r"w.bin is not how a hub checkpoint calls its weights"):
        open_encoder("dinov2-small", weights=tmp_path / "w.bin")
    with pytest.raises(EncoderError, match=r"has no config.json, so it is no transformers checkpoint"):
        open_encoder("dinov2-small", weights=tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_cuda_that_is_not_there(checkpoint: Callable[[str], tuple[Path, Any]]) -> None:
    with pytest.raises(EncoderError, match=r"device 'cuda:1' is not there, torch .*; or use --device cpu"):
        open_encoder(f"hf:{checkpoint('dinov2')[0]}", device="cuda:1", precision="bfloat16")


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"encoder 'dinov2-base' needs {package}; .*'faceblind\[encoders\]'"):
        open_encoder("dinov2-base")


def test_the_table_of_models_is_consistent() -> None:
    infos = {info.name: info for info in encoders()}
    for model in MODELS:
        info = infos[model.name]
        width = model.expected.get("projection_dim") or model.expected.get("hidden_size")
        assert info.dim == (width or model.expected["hidden_sizes"][-1])
        assert info.repository == model.repository
        if model.family == "DINOv3":
            assert "DINOv3" in info.licence
            assert f"https://huggingface.co/{model.repository}, then run: hf auth login" in info.how_to_get
        else:
            assert "gated" not in info.how_to_get
    assert len({model.repository for model in MODELS}) == len(MODELS) == 22
