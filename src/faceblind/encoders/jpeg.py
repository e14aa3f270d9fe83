"""Whether a JPEG's compressed data reach its end marker.

A download that broke off may leave a file of the full size, zeros from the middle on. The decoder takes the
zeros for picture and reports nothing, so the end marker is looked for here.

Format: ITU-T T.81, annex B.
"""

from __future__ import annotations

import re

_END, _SCAN = 0xD9, 0xDA
_ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a length: temporary, restarts

# After a scan's header, 0xFF is followed by 0x00 (stuffing), by a restart, by a fill byte, or it starts a marker.
_NEXT_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]", re.DOTALL)


def reaches_end(data: bytes) -> bool:
    """Walk a JPEG's segments; True when its first image is closed by an end marker."""
    position = 2
    while True:
        position = data.find(b"\xff", position)
        while position >= 0 and data[position : position + 1] == b"\xff":
            position += 1
        if position < 0 or position >= len(data):
            return False
        marker, position = data[position], position + 1
        if marker == _END:
            return True
        if marker in _ALONE or marker == 0:
            continue
        position += int.from_bytes(data[position : position + 2])
        if marker == _SCAN:
            found = _NEXT_MARKER.search(data, position)
            if found is None:
                return False
            position = found.start()
