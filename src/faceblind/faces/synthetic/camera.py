"""From light to a photograph: exposure, colour balance, tone, resolution, blur, grain and compression."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.pillow import Image, ImageFilter
from faceblind.faces.synthetic.shot import Shot


def develop(light: NDArray[np.float32], shot: Shot, size: int) -> NDArray[np.uint8]:
    """Turn linear light (3, side, side) into an sRGB photograph (size, size, 3)."""
    grey = light.mean(axis=0) * (1.0 - shot.saturation)
    pixels = np.empty((light.shape[1], light.shape[2], 3), dtype=np.uint8)
    for k in range(3):
        channel = light[k] * shot.saturation + grey
        channel = np.maximum(channel, 0.0) * (shot.exposure * shot.white_balance[k])
        # A soft shoulder: mid tones are lifted a little and highlights roll off instead of clipping.
        channel = channel * 1.25 / (0.90 + 0.55 * channel)
        tone = np.sqrt(channel)
        tone = tone + (shot.contrast - 1.0) * (tone - 0.45)
        pixels[..., k] = np.clip(tone * 255.0 + 0.5, 0.0, 255.0)
    image = Image.fromarray(pixels)
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    if shot.blur > 0:
        image = image.filter(ImageFilter.GaussianBlur(shot.blur * size))
    grain = np.random.default_rng(shot.grain_seed).standard_normal((size, size, 1), dtype=np.float32)
    noisy = np.asarray(image, dtype=np.float32) + grain * (255.0 * shot.noise)
    developed = np.clip(noisy + 0.5, 0.0, 255.0).astype(np.uint8)
    return _compressed(developed, shot.jpeg) if shot.jpeg else developed


def _compressed(pixels: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as again:
        return np.array(again.convert("RGB"))
