"""The record of a model folder: what was trained, what it still recognises, and what attacks read out of its releases.

Each command writes its own part atomically; the record joins them, so that a report can be drawn at any time and
says "not measured" where a command did not run yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faceblind._errors import FormatError
from faceblind._files import sha256_file, write_text

SCHEMA = "faceblind.frequency/1"
MODEL, RECIPE, TRAINING, ACCOUNT, EVALUATION, ATTACKS, RECORD = (
    "model.safetensors",
    "recipe.json",
    "training.json",
    "account.json",
    "evaluation.json",
    "attacks.json",
    "record.json",
)


def read_json(path: Path, fix: str) -> Any:
    """Read a JSON file of a model folder.

    Raises
    ------
    FormatError
        It is missing (the message then says `fix`) or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FormatError(f"{path} is missing; {fix}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({error}); {fix}") from error


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys in the order given."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def add_evaluations(folder: Path, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add rows to a folder's evaluation; rows for the same set, protocol, noise, flip and FAR are replaced.

    Rows name the digest of the model (``model``) that they are of; those of an earlier model in the folder go.
    """
    path = folder / EVALUATION
    kept = read_json(path, "run: faceblind frequency evaluate") if path.exists() else []
    models = {row.get("model") for row in rows}
    merged = {_key(row): row for row in [*(row for row in kept if row.get("model") in models), *rows]}
    write_json(path, list(merged.values()))
    return list(merged.values())


def add_attacks(folder: Path, found: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Add attacks to those that were measured before on the same releases (``digest``), in the order of names given."""
    path = folder / ATTACKS
    before = _optional(path, {})
    if before.get("digest") == found["digest"]:
        merged = {attack["attack"]: attack for attack in [*before["attacks"], *found["attacks"]]}
        rows = sorted(merged.values(), key=lambda attack: order.index(attack["attack"]))
        found = found | {"attacks": rows, "linkage": found["linkage"] or before["linkage"]}
    write_json(path, found)
    return found


def model_record(folder: Path) -> dict[str, Any]:
    """Join the parts of one model folder; those that were measured on an earlier model in it are left out.

    Raises
    ------
    FormatError
        There is no recipe or training log, or a part is damaged.
    """
    recipe = read_json(folder / RECIPE, "make the folder with: faceblind frequency train")
    training = read_json(folder / TRAINING, "make the folder with: faceblind frequency train")
    model = sha256_file(folder / MODEL) if (folder / MODEL).exists() else None
    attacks, account = (
        part if part.get("model") == model else {}
        for part in (_optional(folder / ATTACKS, {}), _optional(folder / ACCOUNT, {}))
    )
    rows = [row for row in _optional(folder / EVALUATION, []) if row.get("model") == model]
    return {
        "name": folder.name,
        "title": title_of(recipe, continued=training.get("started_from") is not None),
        "kind": recipe["release"],
        "config": recipe["config"],
        "recipe": recipe,
        "account": account.get("account", training.get("account")),
        "training": {key: value for key, value in training.items() if key not in ("account", "log")},
        "evaluation": rows,
        **attacks,
    }


def write_record(folder: Path) -> Path:
    """Write ``record.json`` of a model folder and return its path."""
    path = folder / RECORD
    write_json(path, {"schema": SCHEMA, "models": [model_record(folder)]})
    return path


def title_of(recipe: dict[str, Any], *, continued: bool = False) -> str:
    """Name a model in words: mechanism, what was changed, budget, head, and whether its training went on from another."""
    title = _title(recipe)
    if not continued:
        return title
    return f"{title}, trained on" if recipe["epochs"] else f"{title}, put on a network that was not trained under it"


def _title(recipe: dict[str, Any]) -> str:
    config = recipe["config"]
    head = {"arcface": "ArcFace", "cosface": "CosFace"}.get(recipe["head"], recipe["head"])
    if recipe["release"] != "dctdp":
        name = {"rgb": "RGB", "peep": "PEEP", "cloak": "Cloak", "instahide": "InstaHide"}[recipe["release"]]
        detail = {
            "peep": f"eps {config.get('eps', 5.0):g}",
            "instahide": f"k={config.get('k', 2)}",
        }.get(recipe["release"], "")
        return ", ".join(part for part in (name, detail, head) if part)
    if not config.get("noise", True):
        return f"DCT without noise, {head}"
    parts = ["official DCTDP" if config.get("official") else "DCTDP"]
    if not config.get("frequency", True):
        parts = ["noise on RGB, no DCT"]
    if config.get("sensitivity") == "ones" and not config.get("official"):
        parts.append("ranges of one")
    if config.get("keep_dc"):
        parts.append("DC kept")
    if config.get("budgets", "learned") == "uniform":
        parts.append("equal budgets")
    return ", ".join([*parts, f"mean eps {config.get('eps_mean', 0.5):g}", head])


def _optional(path: Path, otherwise: Any) -> Any:
    return read_json(path, "delete it and run the command again") if path.exists() else otherwise


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["set"], row["protocol"], row["noise"], row.get("flip", False), row.get("far_target"), row.get("rule")
