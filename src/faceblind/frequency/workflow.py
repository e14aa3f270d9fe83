"""From folders to folders: train, evaluate, attack and release, each writing its part of a model folder."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from faceblind._errors import DataError, OutputError, UsageError
from faceblind._files import locked, sha256_file, writable_folder, write_bytes, write_csv
from faceblind.data.split import IdentitySplit
from faceblind.frequency.attacks.base import Public
from faceblind.frequency.attacks.catalogue import LINKAGE, attack_names, attacks_on
from faceblind.frequency.attacks.judge import Judge
from faceblind.frequency.attacks.run import run_attacks
from faceblind.frequency.attacks.targets import Targets
from faceblind.frequency.batches import calibration, generator_of, parts, read_batches
from faceblind.frequency.embed import embed_faces, make_ready
from faceblind.frequency.evaluation.ijb import evaluate_ijb, make_templates
from faceblind.frequency.evaluation.ijb_files import IjbFaces, open_ijb
from faceblind.frequency.evaluation.layouts import open_pairs
from faceblind.frequency.evaluation.pairs import make_pairs
from faceblind.frequency.evaluation.people import evaluate_people
from faceblind.frequency.evaluation.tenfold import tenfold
from faceblind.frequency.faces import FaceSource, open_faces
from faceblind.frequency.model import Recogniser, load_model
from faceblind.frequency.people import save_split, split_people
from faceblind.frequency.recipe import Recipe
from faceblind.frequency.record import ACCOUNT, MODEL, add_attacks, add_evaluations, write_json, write_record
from faceblind.frequency.releases.dctdp import DctDp
from faceblind.frequency.training import TrainingResult, train

Progress = Callable[[str, int, int], None]
SPLIT = "split.csv"


def _quiet(_what: str, _done: int, _of: int) -> None:
    pass


def train_folder(
    folder: Path,
    output: Path,
    recipe: Recipe,
    *,
    split: Path | None = None,
    device: str = "cpu",
    start_from: Path | None = None,
    progress: Progress = _quiet,
) -> TrainingResult:
    """Train on the ``fit`` people of a folder of aligned faces; the split is saved with the model."""
    source = open_faces(folder, recipe.size)
    people = split_people(source, seed=recipe.seed, csv=split)
    writable_folder(output)
    save_split(people, output / SPLIT, source)
    result = train(recipe, source, people.rows("fit"), output, device=device, start_from=start_from, progress=progress)
    write_record(output)
    return result


@dataclass(frozen=True, eq=False)
class Opened:
    """A model folder with the faces it was trained on."""

    model: Recogniser
    source: FaceSource
    split: IdentitySplit

    @classmethod
    def of(cls, folder: Path, faces: Path, *, device: str = "cpu") -> Opened:
        """Open both; the faces must be those of the split that was saved with the model."""
        model = load_model(folder, device=device)
        source = open_faces(faces, model.recipe.size)
        split = split_people(source, csv=folder / SPLIT)
        make_ready(model, source, split.rows("fit"))
        return cls(model, source, split)


def evaluate_model(
    folder: Path,
    faces: Path,
    *,
    pairs: Mapping[str, Path] | None = None,
    ijb: Mapping[str, Path] | None = None,
    noise: bool = True,
    flip: bool = False,
    fars: Sequence[float] = (1e-1, 1e-2, 1e-3),
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = _quiet,
) -> list[dict[str, Any]]:
    """Measure what a model recognises: its ``test`` people, and verification sets as downloaded; returns all rows so far.

    Parameters
    ----------
    pairs
        Name to ``.bin`` file or folder of a verification set (LFW, CFP-FP, AgeDB-30, CALFW, CPLFW).
    ijb
        Name to folder of IJB-B or IJB-C.
    """
    opened = Opened.of(folder, faces, device=device)
    model = opened.model

    def embed(source: FaceSource, rows: NDArray[np.intp] | None, what: str) -> NDArray[np.float32]:
        def told(done: int, of: int) -> None:
            progress(what, done, of)

        return embed_faces(model, source, rows, noise=noise, flip=flip, seed=seed, progress=told)

    def draws_of(name: str) -> np.random.Generator:
        # A set's own draws: the same for every model, whichever other sets it is evaluated on.
        return np.random.default_rng([seed, 0xE7A1, *name.encode()])

    rows = opened.split.rows("test")
    identity = opened.source.identity[rows]
    vectors = embed(opened.source, rows, "test people")
    found = evaluate_people(vectors, identity, fars=fars, rng=draws_of("test-people")).rows("test-people", noise=noise)
    drawn = make_pairs(identity, 3000, rng=np.random.default_rng([seed, 0xFA]), name="test-people")
    if drawn.folds > 1:  # a few people give one fold, and no other to choose a threshold on
        found += tenfold(vectors, drawn, rng=draws_of("test-people")).rows("test-people", noise=noise)
    for name, path in (pairs or {}).items():
        pair_set, source = open_pairs(path, model.recipe.size)
        found += tenfold(embed(source, None, name), pair_set, rng=draws_of(name)).rows(name, noise=noise)
    for name, path in (ijb or {}).items():
        listed = open_ijb(path)
        vectors = embed(IjbFaces(listed, model.recipe.size), None, name)
        ids, templates = make_templates(vectors, listed.template, listed.medium)
        found += evaluate_ijb(ids, templates, listed.pairs_file, rng=draws_of(name)).rows(name, noise=noise)
    digest = sha256_file(folder / MODEL)
    for row in found:
        row |= {"flip": flip, "model": digest}
    kept = add_evaluations(folder, found)
    if isinstance(model.release, DctDp):
        outside = model.release.outside(calibration(opened.source, rows))
        write_json(folder / ACCOUNT, {"model": digest, "account": model.release.account(outside=outside)})
    write_record(folder)
    return kept


def attack_model(
    folder: Path,
    faces: Path,
    *,
    names: Sequence[str] | None = None,
    judge: Judge | None = None,
    people: int | None = None,
    each: int = 2,
    public: int | None = None,
    gallery: int = 4,
    far: float = 1e-2,
    seed: int = 0,
    progress: Progress = _quiet,
) -> dict[str, Any]:
    """Release the ``test`` people, attack them with what the ``attack`` people teach, and keep the result in the folder.

    Returns all that was measured so far on the same releases: with the same people, photographs, seed and judge.

    Parameters
    ----------
    people
        Test people to attack, at most.
    each
        Photographs of each that are attacked; the others are what recovered faces are matched with.
    public
        Faces that the attacker owns, at most.
    """
    opened = Opened.of(folder, faces)
    test, own = opened.split.rows("test"), opened.split.rows("attack")
    rng = np.random.default_rng([seed, 0xA77])
    if people is not None:
        names_of = rng.permutation(np.unique(opened.source.identity[test]))[:people]
        test = test[np.isin(opened.source.identity[test], names_of)]
    if public is not None:
        own = np.sort(rng.permutation(own)[:public])
    targets = Targets.draw(opened.source.pixels(test), opened.source.identity[test], each=each, seed=seed)
    owned = Public(opened.source.pixels(own), opened.source.identity[own])
    release, digest = opened.model.release, sha256_file(folder / MODEL)
    with locked(folder, folder):
        found = run_attacks(
            release,
            targets,
            owned,
            attacks_on(release, names),
            folder,
            judge=judge,
            seed=seed,
            gallery=gallery,
            far=far,
            key=digest,
            embed=opened.model.embed_released if names is None or LINKAGE in names else None,
            progress=progress,
        )
        found = add_attacks(folder, {"model": digest, **found}, attack_names())
        write_record(folder)
    return found


def release_faces(
    folder: Path,
    faces: Path,
    output: Path,
    *,
    seed: int | None = None,
    shard: int = 64,
    progress: Progress = _quiet,
) -> int:
    """Write what leaves the camera, in shards of safetensors with a manifest; finished shards of the same run are kept.

    Returns the number of faces. Noise comes from the system's entropy. A seed repeats a run, and lets whoever guesses it take
    the noise off again: it is for trials. The generator behind it is a good one for statistics, not for cryptography.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save

    model = load_model(folder)
    source = open_faces(faces, model.recipe.size)
    if not model.release.calibrated:
        raise UsageError(
            f"{model.release.title} needs private pictures to mix with, which are not saved with the model; release in Python "
            "after release.set_pool(...)"
        )
    writable_folder(output)
    said = [sha256_file(folder / MODEL), seed, shard, source.sample.tolist()]
    key = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    rows = []
    with locked(output, output):
        cut = parts(np.arange(len(source)), shard)
        for number, (taken, pixels) in enumerate(read_batches(source, cut)):
            path = output / f"released-{number:05d}.safetensors"
            rows += [(str(source.sample[row]), path.name, place) for place, row in enumerate(taken)]
            progress("releasing", int(taken[0]), len(source))
            try:
                with safe_open(str(path), framework="numpy") as file:
                    if (file.metadata() or {}).get("faceblind.released") == key:
                        continue
                raise OutputError(f"{path} is of another run; name another output folder")
            except FileNotFoundError:
                pass
            except SafetensorError as error:
                raise OutputError(f"{path} is damaged ({error}); delete it and run again") from error
            generator = generator_of(secrets.randbits(62) if seed is None else seed, number)
            with torch.no_grad():
                tensor = model.release(pixels, generator).tensor.contiguous()
            write_bytes(path, save({"released": tensor}, metadata={"faceblind.released": key}))
        write_csv(output / "manifest.csv", ("sample", "file", "row"), rows)
        write_json(output / "account.json", model.release.account())
    return len(source)


def recipe_from(
    base: Recipe, *, release: tuple[str, Mapping[str, Any]] | None = None, eps: float | None = None, **changes: Any
) -> Recipe:
    """Change what is given in a recipe; what is None stays.

    Raises
    ------
    UsageError
        A budget for a release that has none.
    """
    given = {key: value for key, value in changes.items() if value is not None}
    if release is not None:
        given |= {"release": release[0], "config": dict(release[1])}
    recipe = replace(base, **given)
    if eps is not None:
        option = {"dctdp": "eps_mean", "peep": "eps"}.get(recipe.release)
        if option is None:
            raise UsageError(f"release {recipe.release} has no budget: leave out --eps")
        recipe = replace(recipe, config=dict(recipe.config) | {option: eps})
    if recipe.epochs and recipe.lr_steps and "epochs" in given and "lr_steps" not in given:
        # Keep the recipe's shape: drops at the same shares of a shorter or longer run.
        steps = sorted({max(1, round(step * recipe.epochs / base.epochs)) for step in base.lr_steps})
        recipe = replace(recipe, lr_steps=tuple(steps))
    return recipe


def named_paths(values: Sequence[str], what: str) -> dict[str, Path]:
    """Read ``NAME=PATH`` options.

    Raises
    ------
    DataError
        Another form, or a name twice.
    """
    found: dict[str, Path] = {}
    for value in values:
        name, sign, path = value.partition("=")
        if not (sign and name and path) or name in found:
            raise DataError(f"{what} {value!r} must be NAME=PATH, each name once")
        found[name] = Path(path)
    return found
