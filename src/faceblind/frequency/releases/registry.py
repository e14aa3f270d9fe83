"""Which releases there are, by kind and by the names of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

from faceblind._errors import UsageError
from faceblind.frequency.releases.base import Release
from faceblind.frequency.releases.cloak import Cloak
from faceblind.frequency.releases.dctdp import DctDp
from faceblind.frequency.releases.instahide import InstaHide
from faceblind.frequency.releases.peep import Peep
from faceblind.frequency.releases.rgb import Rgb

KINDS: Mapping[str, type[Release]] = {cls.kind: cls for cls in (DctDp, Rgb, Peep, Cloak, InstaHide)}

PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "dctdp": ("dctdp", {}),
    "dctdp-uniform": ("dctdp", {"budgets": "uniform"}),
    "dctdp-official": ("dctdp", {"official": True}),
    "dctdp-ones": ("dctdp", {"sensitivity": "ones"}),
    "dctdp-dc": ("dctdp", {"keep_dc": True}),
    "dct-clean": ("dctdp", {"noise": False}),
    "rgb-noise": ("dctdp", {"frequency": False}),
    "rgb": ("rgb", {}),
    "peep": ("peep", {}),
    "cloak": ("cloak", {}),
    "instahide": ("instahide", {}),
}
"""What the command line calls releases: the paper's, its ablations, the published code's, and the baselines."""

# What a value may be, by the type of the option's default.
_TYPES: Mapping[type, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a name"),
}


def open_release(kind: str, size: tuple[int, int], config: Mapping[str, Any]) -> Release:
    """Make a release from its kind and options.

    Raises
    ------
    UsageError
        An unknown kind or option, or a value of another type or out of range; the message names it and what there is.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown release {kind!r}; there are {', '.join(kinds())}")
    known = _options(kind)
    for name, value in config.items():
        if name not in known:
            raise UsageError(
                f"release {kind} has no option {name!r}; it takes {', '.join(known) if known else 'no options'}"
            )
        accepted, what = _TYPES.get(type(known[name]), (None, ""))  # others are the constructor's to judge
        if accepted and (not isinstance(value, accepted) or isinstance(value, bool) is not (accepted is bool)):
            raise UsageError(f"release {kind}: {name} must be {what}, got {value!r}")
    return KINDS[kind](size, **config)


def kinds() -> tuple[str, ...]:
    """Return the kinds there are."""
    return tuple(KINDS)


def preset(name: str) -> tuple[str, dict[str, Any]]:
    """Return kind and options behind a name of the command line.

    Raises
    ------
    UsageError
        An unknown name.
    """
    if name not in PRESETS:
        raise UsageError(f"unknown release {name!r}; there are {', '.join(PRESETS)}")
    kind, config = PRESETS[name]
    return kind, dict(config)


def _options(kind: str) -> dict[str, Any]:
    keywords = signature(KINDS[kind]).parameters.values()
    return {p.name: p.default for p in keywords if p.kind is Parameter.KEYWORD_ONLY}
