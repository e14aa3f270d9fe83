"""`Certificate`: one evidence file, its digests, and the pair of files it is saved as."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faceblind._errors import FormatError, UsageError
from faceblind._files import atomic_path, remove, write_bytes
from faceblind.audit.certificate import canonical
from faceblind.audit.certificate.texts import FORMAT

ALGORITHM = "SHA-256 of canonical JSON (sorted keys, no white space, ASCII, whole numbers without a point)"
SEALS = ("digests", "signature")
"""Members that the digests do not cover: themselves, and the signature over them."""
_SPLIT = "audit"
"""This section is large: each of its parts has a digest of its own."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """An evidence file. Make it with `certify`, read it with `load`, check it with `verify`.

    Attributes
    ----------
    data : mapping
        The content in plain JSON types, in the layout ``faceblind.certificate/1``.
    """

    data: Mapping[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate file.

        Raises
        ------
        FormatError
            No file, not strict JSON, or not a certificate of this layout.
        """
        return cls.from_dict(canonical.read(path), source=str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "this") -> Certificate:
        """Take over plain JSON types; raises `FormatError` when they are of another layout."""
        found = data.get("format")
        if found != FORMAT:
            raise FormatError(f"{source} is no certificate of layout {FORMAT!r}: its format is {found!r}")
        return cls(copy.deepcopy(dict(data)))

    @property
    def digest(self) -> str:
        """The overall digest, as the certificate states it."""
        return str(self.data["digests"]["overall"])

    @property
    def conclusion(self) -> Mapping[str, Any]:
        """What the audit concluded: ``reached``, ``level``, ``headline``, ``because_of``."""
        found: Mapping[str, Any] = self.data["conclusion"]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the content."""
        return copy.deepcopy(dict(self.data))

    def to_json(self) -> str:
        """Return the content as JSON text; floats read back exactly."""
        return json.dumps(self.data, indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return the content as one offline page."""
        from faceblind.audit.certificate.page import render_certificate

        return render_certificate(self.data)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the JSON file and the page beside it (``.html``): both or neither.

        Raises
        ------
        UsageError
            The name does not end in ``.json``.
        OutputError
            The place cannot be written.

        Returns
        -------
        tuple of Path
            The JSON file and the page.
        """
        record, page = pair_of(path)
        text, html = self.to_json(), self.to_html()
        earlier = page.read_bytes() if page.is_file() else None
        try:
            # Both are written before either is renamed; the page is renamed first, the record last.
            with atomic_path(record) as first, atomic_path(page) as second:
                first.write_bytes(text.encode())
                second.write_bytes(html.encode())
        except BaseException:
            if page.is_file() and page.read_bytes() != earlier:  # renamed already, and the record could not be
                remove(page) if earlier is None else write_bytes(page, earlier)
            raise
        return record, page


def pair_of(path: str | Path) -> tuple[Path, Path]:
    """Return the paths of the record and of the page; raises `UsageError` unless the name ends in ``.json``."""
    path = Path(path)
    if path.suffix.lower() != ".json" or not path.stem:
        raise UsageError(
            f"a certificate is written to a file ending in .json, with the page beside it; got {path.name!r}"
        )
    return path, path.with_suffix(".html")


def section_digests(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every section, and of every part of the audit record (``audit/rows`` and so on)."""
    found: dict[str, str] = {}
    for name, section in data.items():
        if name in SEALS:
            continue
        if name == _SPLIT and isinstance(section, Mapping):
            found |= {f"{name}/{part}": canonical.digest(inner) for part, inner in section.items()}
        else:
            found[name] = canonical.digest(section)
    return dict(sorted(found.items()))


def overall_digest(sections: Mapping[str, str]) -> str:
    """Return the digest over the digests of the sections."""
    return canonical.digest({"format": FORMAT, "sections": dict(sections)})


def digests_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block of digests of a certificate."""
    sections = section_digests(data)
    return {"algorithm": ALGORITHM, "sections": sections, "overall": overall_digest(sections)}
