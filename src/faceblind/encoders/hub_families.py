"""The architectures that hub checkpoints may have: which class runs them, and what the original release takes as vector.

Libraries pool differently, and the vectors of one network pooled in two ways are of two encoders:

- CLIP: the class token after the last layer norm, times the visual projection. (Some take the token before it.)
- DINOv2: ``x_norm_clstoken``, the class token after the final layer norm; no register, no patch.
- DINOv3 ViT: the same. timm averages patch tokens by default, which is another vector
  (https://github.com/huggingface/pytorch-image-models/issues/2681).
- DINOv3 ConvNeXt: the mean of the last feature map, then the final layer norm, which the release calls its class token.
- SigLIP and SigLIP 2: the attention pooling head.

None is scaled to unit length by its release, nor here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faceblind._errors import EncoderError

_TEXT = r"text_model\.|text_projection\.|logit_scale$|logit_bias$|.*\.position_ids$"


@dataclass(frozen=True, kw_only=True)
class Family:
    """One architecture."""

    model: str
    """Class in transformers."""
    config: str
    """Class in transformers of the whole ``config.json``."""
    part: str | None = None
    """Attribute of the configuration that holds the vision tower's."""
    output: str = "pooler_output"
    pooling: str
    attention: str | None = "sdpa"
    """Attention is always computed by this implementation; None where there is none."""
    position_offset: float | None = None
    """See `faceblind.encoders.hub_positions`; None where transformers places positions as the release does."""
    unused: str = r"classifier\."
    """Tensors that a checkpoint may hold and the vector does not need, as a pattern."""

    def may_ignore(self, tensor: str) -> bool:
        """Tell whether a tensor belongs to a part that is not loaded."""
        return re.match(self.unused, tensor) is not None


_CLIP = "class token after layer norm, projected"
_CLASS_TOKEN = "class token after the final layer norm"
_SIGLIP = "attention pooling head"

FAMILIES: Mapping[str, Family] = {
    "clip": Family(
        model="CLIPVisionModelWithProjection",
        config="CLIPConfig",
        part="vision_config",
        output="image_embeds",
        pooling=_CLIP,
        unused=_TEXT,
    ),
    "clip_vision_model": Family(
        model="CLIPVisionModelWithProjection",
        config="CLIPVisionConfig",
        output="image_embeds",
        pooling=_CLIP,
        unused=_TEXT,
    ),
    "dinov2": Family(model="Dinov2Model", config="Dinov2Config", pooling=_CLASS_TOKEN, position_offset=0.1),
    "dinov2_with_registers": Family(
        model="Dinov2WithRegistersModel", config="Dinov2WithRegistersConfig", pooling=_CLASS_TOKEN
    ),
    "dinov3_vit": Family(model="DINOv3ViTModel", config="DINOv3ViTConfig", pooling=_CLASS_TOKEN),
    "dinov3_convnext": Family(
        model="DINOv3ConvNextModel",
        config="DINOv3ConvNextConfig",
        pooling="mean of the last feature map, layer norm",
        attention=None,
    ),
    "siglip": Family(
        model="SiglipVisionModel", config="SiglipConfig", part="vision_config", pooling=_SIGLIP, unused=_TEXT
    ),
    "siglip_vision_model": Family(
        model="SiglipVisionModel", config="SiglipVisionConfig", pooling=_SIGLIP, unused=_TEXT
    ),
}
"""By ``model_type`` in ``config.json``. SigLIP 2 at fixed resolution has the architecture, and the type, of SigLIP."""

# What changes vectors and no tensor's shape, so that only the configuration tells.
_FACTS = (
    ("hidden_act", "{}"),
    ("layer_norm_eps", "eps {:g}"),
    ("num_attention_heads", "{} heads"),
    ("patch_size", "patch {}"),
    ("rope_theta", "rope {:g}"),
)


def family_of(config: Mapping[str, Any], source: str) -> Family:
    """Find the family of a ``config.json``; `EncoderError` when it is none of them."""
    kind = str(config.get("model_type"))
    if kind in {"siglip2", "siglip2_vision_model"}:
        raise EncoderError(
            f"{source} is a SigLIP 2 of variable resolution (NaFlex), which is not supported: take one of fixed "
            "resolution, such as google/siglip2-base-patch16-224"
        )
    if kind not in FAMILIES:
        raise EncoderError(
            f"{source} has the architecture {kind!r} (model_type in config.json); known are {', '.join(FAMILIES)}; "
            "export others to ONNX and use onnx:FILE"
        )
    return FAMILIES[kind]


def describe(family: Family, config: Any) -> str:
    """Say how a vector leaves the network, with the settings that no tensor's shape shows."""
    facts = [text.format(value) for name, text in _FACTS if (value := getattr(config, name, None)) is not None]
    if family.position_offset is not None:
        facts.append(f"positions offset {family.position_offset:g}")
    return f"{family.pooling} ({', '.join(facts)})"
