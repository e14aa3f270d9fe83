"""Where a training run is: everything that it needs to go on as if it had never stopped. Nothing is pickled."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn, optim

from faceblind._errors import FormatError, OutputError
from faceblind._files import write_bytes
from faceblind.frequency.model import load_part, read_tensors, tensors_of
from faceblind.frequency.recipe import Recipe
from faceblind.frequency.record import RECIPE, read_json

CHECKPOINT = "checkpoint.safetensors"
_HEADER = "faceblind.checkpoint"
_ANEW = "delete it to train from the start"


@dataclass
class Position:
    """How far a run is, and what its log holds so far."""

    recipe: str
    faces: str
    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    right: int = 0
    seen: int = 0
    seconds: float = 0.0
    started_from: str = ""
    scaler: dict[str, Any] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)


def save_checkpoint(
    folder: Path, modules: dict[str, nn.Module], optimisers: dict[str, optim.Optimizer], position: Position
) -> None:
    """Write all state atomically."""
    from safetensors.torch import save

    tensors = tensors_of(modules)
    for name, optimiser in optimisers.items():
        for index, state in optimiser.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"{name}.{index}.{key}"] = value.detach().cpu().contiguous()
    write_bytes(folder / CHECKPOINT, save(tensors, metadata={_HEADER: json.dumps(asdict(position))}))


def load_checkpoint(
    folder: Path,
    modules: dict[str, nn.Module],
    optimisers: dict[str, optim.Optimizer],
    *,
    recipe: Recipe,
    faces: str,
    started_from: str = "",
) -> Position | None:
    """Restore all state, or return None when there is no checkpoint.

    Parameters
    ----------
    recipe, faces, started_from
        The recipe and the digests of the faces and of the weights begun from, which must be those of the run.

    Raises
    ------
    OutputError
        It belongs to another recipe, to other faces, or began from other weights.
    FormatError
        It is damaged.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    tensors, said = read_tensors(path, _ANEW, header=_HEADER)
    try:
        position = Position(**said)
    except TypeError as error:
        raise FormatError(f"{path} is damaged ({error}); {_ANEW}") from error
    other = ""
    if position.recipe != recipe.digest:
        other = f"with another recipe{_differences(folder, recipe)}"
    elif position.faces != faces:
        other = "on other faces"
    elif position.started_from != started_from:
        other = "that began from other weights"
    if other:
        raise OutputError(
            f"{folder} holds a run {other}; name another output folder, or delete this one to train from the start"
        )
    for name, module in modules.items():
        load_part(module, name, tensors, path)
    for name, optimiser in optimisers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"{name}."):
                _, index, entry = key.split(".")
                state.setdefault(int(index), {})[entry] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    return position


def _differences(folder: Path, recipe: Recipe) -> str:
    """Say which values of the run in a folder are not those of a recipe."""
    try:
        before = read_json(folder / RECIPE, "")
    except FormatError:
        return ""
    now = recipe.to_dict()
    found = [f"{name} {before.get(name)!r}, not {value!r}" for name, value in now.items() if before.get(name) != value]
    return f" ({'; '.join(found)})" if found else ""
