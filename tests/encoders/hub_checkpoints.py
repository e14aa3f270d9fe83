"""Tiny checkpoints in the hub's own format: the architectures of the releases, narrow and shallow, random weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

CLIP_FILE = {
    "crop_size": 224,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "feature_extractor_type": "CLIPFeatureExtractor",
    "image_mean": CLIP_MEAN,
    "image_std": CLIP_STD,
    "resample": 3,
    "size": 224,
}
"""As OpenAI's and LAION's repositories have it."""
DINOV2_FILE = {
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": IMAGENET_MEAN,
    "image_processor_type": "BitImageProcessor",
    "image_std": IMAGENET_STD,
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 256},
}
DINOV3_FILE = {
    "crop_size": None,
    "data_format": "channels_first",
    "default_to_square": True,
    "do_center_crop": None,
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": IMAGENET_MEAN,
    "image_processor_type": "DINOv3ViTImageProcessorFast",
    "image_std": IMAGENET_STD,
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 224, "width": 224},
}
SIGLIP2_FILE = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "SiglipImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "processor_class": "SiglipProcessor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 224, "width": 224},
}

TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
_TEXT |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One release, in small."""

    build: Callable[[], Any]
    preprocessing: Mapping[str, Any]
    dim: int = 32


def _clip(act: str, patch: int) -> Callable[[], Any]:
    def build() -> Any:
        from transformers import CLIPConfig, CLIPModel

        # projection_dim stands in two places, and as in some releases only the outer one is right
        vision = {"intermediate_size": 64, "image_size": 224, "patch_size": patch, "hidden_act": act}
        config = CLIPConfig(vision_config=TINY | vision, text_config=_TEXT | {"hidden_act": act}, projection_dim=24)
        return CLIPModel(config)

    return build


def _dinov2(**extra: Any) -> Callable[[], Any]:
    def build() -> Any:
        from transformers import Dinov2Config, Dinov2Model

        return Dinov2Model(Dinov2Config(**TINY, image_size=518, patch_size=14, **extra))

    return build


def _dinov2_registers() -> Any:
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    config = Dinov2WithRegistersConfig(**TINY, image_size=518, patch_size=14, num_register_tokens=4)
    return Dinov2WithRegistersModel(config)


def _dinov3(**extra: Any) -> Callable[[], Any]:
    def build() -> Any:
        from transformers import DINOv3ViTConfig, DINOv3ViTModel

        return DINOv3ViTModel(DINOv3ViTConfig(**TINY, intermediate_size=64, num_register_tokens=4, **extra))

    return build


def _convnext() -> Any:
    from transformers import DINOv3ConvNextConfig, DINOv3ConvNextModel

    return DINOv3ConvNextModel(DINOv3ConvNextConfig(hidden_sizes=[4, 8, 16, 32], depths=[1, 1, 2, 1]))


def _siglip() -> Any:
    from transformers import SiglipConfig, SiglipModel

    vision = {"intermediate_size": 64, "image_size": 224, "patch_size": 16}
    return SiglipModel(SiglipConfig(vision_config=TINY | vision, text_config=_TEXT | {"projection_size": 32}))


KINDS: Mapping[str, Kind] = {
    "clip-openai": Kind(build=_clip("quick_gelu", 32), preprocessing=CLIP_FILE, dim=24),
    "clip-laion": Kind(build=_clip("gelu", 32), preprocessing=CLIP_FILE, dim=24),
    "dinov2": Kind(build=_dinov2(), preprocessing=DINOV2_FILE),
    "dinov2-swiglu": Kind(build=_dinov2(use_swiglu_ffn=True), preprocessing=DINOV2_FILE),
    "dinov2-registers": Kind(build=_dinov2_registers, preprocessing=DINOV2_FILE),
    "dinov3-vit": Kind(build=_dinov3(), preprocessing=DINOV3_FILE),
    "dinov3-vit-gated": Kind(build=_dinov3(use_gated_mlp=True, hidden_act="silu"), preprocessing=DINOV3_FILE),
    "dinov3-convnext": Kind(build=_convnext, preprocessing=DINOV3_FILE),
    "siglip2": Kind(build=_siglip, preprocessing=SIGLIP2_FILE),
}


def randomise(model: Any, seed: int = 0) -> Any:
    """Give every parameter values that leave no step without effect, norms and layer scales included."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(around + noise * (0.2 if parameter.ndim < 2 else 0.8 / parameter.shape[-1] ** 0.5))
    return model.eval()


def write_checkpoint(folder: Path, kind: str, *, seed: int = 0) -> Any:
    """Write a checkpoint as `save_pretrained` does, with the release's preprocessing file; returns the model."""
    model = randomise(KINDS[kind].build(), seed)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(KINDS[kind].preprocessing))
    return model


def photo(height: int = 300, width: int = 261, seed: int = 0) -> np.ndarray:
    """Draw smooth blobs with some noise: (height, width, 3) uint8."""
    rng = np.random.default_rng([seed, height, width])
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    out = rng.normal(scale=12, size=(height, width, 3))
    for _ in range(10):
        cx, cy, spread = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.05, 0.4)
        out += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / spread**2)[..., None] * rng.uniform(0, 200, 3)
    return np.clip(out, 0, 255).astype(np.uint8)
