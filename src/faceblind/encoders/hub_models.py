"""Encoders on the model hub that have a name here, and ``hf:`` for every other checkpoint of their architectures.

Names are ``FAMILY-SIZE``, then the weights where a family has several: ``clip-vit-b32-openai``, ``dinov2-base-registers``,
``dinov3-convnext-tiny``, ``siglip2-so400m``. Each name promises an architecture, checked against the checkpoint's
configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError
from faceblind.encoders.entry import EncoderInfo, Entry, OpenOptions
from faceblind.encoders.hub_encoder import open_hub_encoder
from faceblind.encoders.hub_files import HubFolder, hub_folder, local_folder
from faceblind.encoders.torch_encoder import TorchEncoder

HUB_PREFIX = "hf:"

_INSTALL = "pip install 'faceblind[encoders]'"
_OPEN = f"{_INSTALL}; the weights are fetched on first use, or: --weights FOLDER"
_DINOV3_LICENCE = "DINOv3 License (Meta; commercial use allowed, with conditions)"


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A checkpoint on the hub with a name here."""

    name: str
    repository: str
    dim: int
    family: str
    licence: str
    gated: bool = False
    expected: Mapping[str, Any]
    """What its configuration must say (`open_hub_encoder`)."""
    released: Mapping[str, Any] = field(default_factory=dict)
    """Where the original release and the repository's preprocessing file may differ."""

    def entry(self) -> Entry:
        """Return what the registry lists and opens."""
        info = EncoderInfo(
            name=self.name,
            dim=self.dim,
            licence=self.licence,
            how_to_get=self._how_to_get(),
            family=self.family,
            repository=self.repository,
        )
        return Entry(info=info, open=self.open)

    def open(self, options: OpenOptions) -> TorchEncoder:
        """Open it from the folder in `options`, the hub's cache or the hub."""
        return open_hub_encoder(
            partial(self._find, options.weights),
            options,
            name=self.name,
            expected=self.expected,
            released=self.released,
        )

    def _find(self, weights: Path | None) -> HubFolder:
        if weights is not None:
            return local_folder(weights)
        return hub_folder(self.repository, how_to_get=self._access() if self.gated else "")

    def _how_to_get(self) -> str:
        if self.gated:
            return f"{_INSTALL}; gated: {self._access()}; or: --weights FOLDER"
        return _OPEN

    def _access(self) -> str:
        return f"accept the licence at https://huggingface.co/{self.repository}, then run: hf auth login"


def _clip() -> Iterator[HubModel]:
    sizes = (("b32", 512, 768, 12, 32), ("b16", 512, 768, 12, 16), ("l14", 768, 1024, 24, 14))
    openai = {"b32": "base-patch32", "b16": "base-patch16", "l14": "large-patch14"}
    laion = {"b32": "B-32-laion2B-s34B-b79K", "b16": "B-16-laion2B-s34B-b88K", "l14": "L-14-laion2B-s32B-b82K"}
    for size, dim, width, layers, patch in sizes:
        architecture = {
            "model_type": "clip",
            "hidden_size": width,
            "num_hidden_layers": layers,
            "patch_size": patch,
            "projection_dim": dim,
        }
        yield HubModel(
            name=f"clip-vit-{size}-openai",
            repository=f"openai/clip-vit-{openai[size]}",
            dim=dim,
            family="CLIP",
            licence="MIT (OpenAI)",
            # OpenAI trained with the approximation x * sigmoid(1.702 x); GELU with these weights gives other vectors.
            expected=architecture | {"hidden_act": "quick_gelu"},
        )
        # The one LAION model here that was trained on pixels scaled to -1 .. 1 (open_clip's table of weights says so).
        half = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]} if size == "l14" else {}
        yield HubModel(
            name=f"clip-vit-{size}-laion2b",
            repository=f"laion/CLIP-ViT-{laion[size]}",
            dim=dim,
            family="CLIP",
            licence="MIT (LAION)",
            expected=architecture | {"hidden_act": "gelu"},
            released=half,
        )


_WIDTHS = {"small": (384, 12), "base": (768, 12), "large": (1024, 24)}


def _dinov2() -> Iterator[HubModel]:
    for registers in (False, True):
        for size, (width, layers) in _WIDTHS.items():
            kind = "dinov2_with_registers" if registers else "dinov2"
            architecture = {"model_type": kind, "hidden_size": width, "num_hidden_layers": layers, "patch_size": 14}
            yield HubModel(
                name=f"dinov2-{size}-registers" if registers else f"dinov2-{size}",
                repository=f"facebook/{kind.replace('_', '-')}-{size}",
                dim=width,
                family="DINOv2",
                licence="Apache-2.0 (Meta)",
                expected=architecture | ({"num_register_tokens": 4} if registers else {}),
            )


def _dinov3() -> Iterator[HubModel]:
    model = partial(HubModel, family="DINOv3", licence=_DINOV3_LICENCE, gated=True)
    for size, (width, layers) in _WIDTHS.items():
        yield model(
            name=f"dinov3-vit-{size}",
            repository=f"facebook/dinov3-vit{size[0]}16-pretrain-lvd1689m",
            dim=width,
            expected={
                "model_type": "dinov3_vit",
                "hidden_size": width,
                "num_hidden_layers": layers,
                "patch_size": 16,
                "num_register_tokens": 4,
            },
        )
    for size, first, third in (("tiny", 96, 9), ("small", 96, 27), ("base", 128, 27), ("large", 192, 27)):
        yield model(
            name=f"dinov3-convnext-{size}",
            repository=f"facebook/dinov3-convnext-{size}-pretrain-lvd1689m",
            dim=8 * first,
            expected={
                "model_type": "dinov3_convnext",
                "hidden_sizes": [first, 2 * first, 4 * first, 8 * first],
                "depths": [3, 3, third, 3],
            },
        )


def _siglip2() -> Iterator[HubModel]:
    for size, repository, width, layers, patch in (
        ("base", "base-patch16-224", 768, 12, 16),
        ("large", "large-patch16-256", 1024, 24, 16),
        ("so400m", "so400m-patch14-224", 1152, 27, 14),
    ):
        yield HubModel(
            name=f"siglip2-{size}",
            repository=f"google/siglip2-{repository}",
            dim=width,
            family="SigLIP 2",
            licence="Apache-2.0 (Google)",
            expected={
                "model_type": "siglip",
                "hidden_size": width,
                "num_hidden_layers": layers,
                "patch_size": patch,
            },
        )


MODELS = (*_clip(), *_dinov2(), *_dinov3(), *_siglip2())
ENTRIES = tuple(model.entry() for model in MODELS)

ANY_CHECKPOINT = EncoderInfo(
    name="hf:REPOSITORY",
    dim=None,
    licence="that of the repository",
    how_to_get=f"{_INSTALL}; hf:OWNER/NAME, hf:OWNER/NAME@REVISION or hf:FOLDER, of one of the architectures above",
    family="Your own",
)


def open_any_checkpoint(name: str, options: OpenOptions) -> TorchEncoder:
    """Open ``"hf:OWNER/NAME"``, ``"hf:OWNER/NAME@REVISION"`` or ``"hf:FOLDER"``.

    Raises
    ------
    EncoderError
        There is no such repository or folder, or it holds another architecture.
    """
    options.allow(name, "threads", "device", "precision")
    what = name.removeprefix(HUB_PREFIX)
    if not what:
        raise EncoderError(f"{name!r} names no checkpoint; write hf:OWNER/NAME or hf:FOLDER")
    folder = Path(what).expanduser()
    if folder.exists():
        find = partial(local_folder, folder)
        name = HUB_PREFIX + folder.resolve().name
    else:
        repository, _, revision = what.partition("@")
        find = partial(hub_folder, repository, revision=revision or None)
    return open_hub_encoder(find, options, name=name)
