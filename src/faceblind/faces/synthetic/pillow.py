"""Pillow, or a plain word on how to get it. Import this only from code that draws."""

from __future__ import annotations

from faceblind._errors import MissingExtraError

try:
    from PIL import Image, ImageDraw, ImageFilter, ImageFont, PngImagePlugin
except ImportError as error:  # pragma: no cover
    raise MissingExtraError("pillow", "images", "rendering synthetic people") from error

__all__ = ["Image", "ImageDraw", "ImageFilter", "ImageFont", "PngImagePlugin"]
