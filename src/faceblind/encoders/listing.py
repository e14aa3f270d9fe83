"""The encoders as a list to read: by family, what they share said once."""

from __future__ import annotations

from collections.abc import Iterable

from faceblind.encoders.entry import EncoderInfo

_NAME_WIDTH = 24


def list_encoders(infos: Iterable[EncoderInfo]) -> str:
    """Lay encoders out by family: name, length of a vector, repository; below, licence and how to get the weights."""
    families: dict[str, dict[tuple[str, str], list[EncoderInfo]]] = {}
    for info in infos:
        shared = info.licence, _for_all(info)
        families.setdefault(info.family, {}).setdefault(shared, []).append(info)
    return "\n\n".join(_family(family, groups) for family, groups in families.items())


def _family(family: str, groups: dict[tuple[str, str], list[EncoderInfo]]) -> str:
    lines = [family]
    for (licence, how_to_get), infos in groups.items():
        lines += [_line(info) for info in infos]
        lines += [f"      licence: {licence}", f"      weights: {how_to_get}"]
    return "\n".join(lines)


def _line(info: EncoderInfo) -> str:
    length = "any" if info.dim is None else str(info.dim)
    return f"  {info.name:<{_NAME_WIDTH}} {length:>5}  {info.repository or ''}".rstrip()


def _for_all(info: EncoderInfo) -> str:
    return info.how_to_get if info.repository is None else info.how_to_get.replace(info.repository, "REPOSITORY")
