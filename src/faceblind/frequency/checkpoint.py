"""Where a training run is: everything that it needs to go on as if it had never stopped. Nothing is pickled."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn, optim

from faceblind._errors import FormatError, OutputError
from faceblind._files import write_bytes
from faceblind.frequency.model import load_part, tensors_of

CHECKPOINT = "checkpoint.safetensors"
_HEADER = "faceblind.checkpoint"


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
    recipe: str,
    faces: str,
) -> Position | None:
    """Restore all state, or return None when there is no checkpoint.

    Raises
    ------
    OutputError
        It belongs to another recipe or other faces.
    FormatError
        It is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(str(path), framework="pt") as file:
            position = Position(**json.loads((file.metadata() or {})[_HEADER]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path} is damaged ({error}); delete it to train from the start") from error
    for what, given, wanted in (("recipe", position.recipe, recipe), ("faces", position.faces, faces)):
        if given != wanted:
            raise OutputError(
                f"{folder} holds a run with other {what}; name another output folder, or delete it to train from the start"
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
