"""Contact sheets of portraits, captioned as synthetic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from faceblind._errors import DataError
from faceblind.faces.synthetic.people import Portrait

if TYPE_CHECKING:
    from PIL import Image as PillowImage

_STRIP = 22
_CAPTION = "synthetic portraits rendered by faceblind: nobody here exists"


def contact_sheet(portraits: Iterable[Portrait], columns: int) -> PillowImage.Image:
    """Lay portraits out in rows of `columns`, with a strip below that says they are synthetic.

    Raises
    ------
    DataError
        No portraits, portraits of different sizes, or fewer than 1 column.
    """
    from faceblind.faces.synthetic.pillow import Image, ImageDraw, ImageFont

    shown = list(portraits)
    if not shown:
        raise DataError("a contact sheet needs at least one portrait")
    if columns < 1:
        raise DataError(f"columns is {columns}: a contact sheet needs at least 1")
    sizes = {portrait.image.shape[:2] for portrait in shown}
    if len(sizes) > 1:
        raise DataError(f"the portraits have different sizes {sorted(sizes)}: a contact sheet needs equal ones")
    height, width = sizes.pop()
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height + _STRIP), (245, 245, 245))
    for place, portrait in enumerate(shown):
        row, column = divmod(place, columns)
        sheet.paste(Image.fromarray(portrait.image), (column * width, row * height))
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default()
    words = _CAPTION if pen.textlength(_CAPTION, font=font) < sheet.width - 12 else "synthetic"
    pen.text((6, rows * height + 5), words, fill=(60, 60, 60), font=font)
    return sheet
