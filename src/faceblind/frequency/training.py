"""Train a network on releases: seeded, resumable to the bit on a CPU, and stopped before it wastes hours on nonsense."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn, optim

from faceblind._errors import DataError, UsageError
from faceblind._files import locked, remove, sha256_file, writable_folder
from faceblind.encoders.device import choose_device
from faceblind.frequency.batches import calibration, parts, read_batches, row_numbers
from faceblind.frequency.checkpoint import CHECKPOINT, Position, load_checkpoint, save_checkpoint
from faceblind.frequency.faces import FaceSource
from faceblind.frequency.heads import MarginHead
from faceblind.frequency.model import Recogniser, load_part, read_tensors, save_model
from faceblind.frequency.recipe import Recipe
from faceblind.frequency.record import MODEL, RECIPE, TRAINING, write_json

Progress = Callable[[str, int, int], None]
SAVE_EVERY = 1000
"""Steps between checkpoints inside an epoch; there is one after each epoch in any case."""


@dataclass(frozen=True)
class TrainingResult:
    """A trained model and its log."""

    folder: Path
    model: Recogniser
    people: int
    images: int
    log: tuple[dict[str, Any], ...]


def train(
    recipe: Recipe,
    source: FaceSource,
    rows: ArrayLike,
    output: str | Path,
    *,
    device: str = "cpu",
    start_from: str | Path | None = None,
    save_every: int = SAVE_EVERY,
    progress: Progress = lambda _what, _done, _of: None,
) -> TrainingResult:
    """Train on some faces of a source and write a model folder.

    The release is calibrated on the same faces first. A run that was stopped goes on from its last checkpoint; on a CPU the
    result is then the same to the bit as without the stop.

    Parameters
    ----------
    rows : (n,) int, or a mask
        Faces to train on; the people among them are the classes.
    start_from : path, optional
        A model folder whose backbone to begin with, such as one that was trained without noise.

    Raises
    ------
    DataError
        Rows that are not there, or fewer than two people among them.
    UsageError
        A recipe that does not fit the faces, or a loss that is not finite.
    OutputError
        The folder holds another run, or is in use.
    """
    taken = row_numbers(source, rows)
    if save_every < 1:
        raise UsageError(f"save_every must be at least one step, got {save_every}")
    if tuple(source.size) != recipe.size:
        raise UsageError(
            f"the recipe is for faces of {recipe.size}, the source gives {tuple(source.size)}: open it at that size"
        )
    people, label = np.unique(np.asarray(source.identity)[taken], return_inverse=True)
    if people.size < 2:
        raise DataError(f"training needs at least two people, got {people.size} with {taken.size} faces")
    folder = writable_folder(output)
    with locked(folder, folder):
        for half in folder.glob(".*.safetensors.*.part"):  # of a run that was killed while it wrote
            remove(half)
        run = _Run(recipe, source, taken, torch.from_numpy(label), folder, device, progress)
        run.restore(start_from)
        run.train(save_every)
        return run.finish(people.size)


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        source: FaceSource,
        rows: NDArray[np.intp],
        label: Tensor,
        folder: Path,
        device: str,
        progress: Progress,
    ) -> None:
        self.recipe, self.source, self.rows = recipe, source, rows
        self.label = torch.zeros(len(source), dtype=torch.int64)
        self.label[torch.from_numpy(rows)] = label
        self.folder, self.progress = folder, progress
        self.device, self.kind = choose_device(torch, device, recipe.precision)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.model = Recogniser(recipe)
            self.head = MarginHead(recipe.head, recipe.embedding, int(label.max()) + 1, s=recipe.s, m=recipe.m)
        self.model.to(self.device)
        self.model.lay_out()
        self.head.to(self.device)
        self.modules: dict[str, nn.Module] = {
            "release": self.model.release,
            "backbone": self.model.backbone,
            "head": self.head,
        }
        self.optimisers = self._optimisers()
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=recipe.precision == "float16")
        self.position = Position(recipe.digest, self._digest())

    def _optimisers(self) -> dict[str, optim.Optimizer]:
        weights = [p for module in (self.model.backbone, self.head) for p in module.parameters()]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": self.recipe.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        found: dict[str, optim.Optimizer] = {"sgd": optim.SGD(groups, lr=self.recipe.lr, momentum=self.recipe.momentum)}
        if noise := self.model.release.noise_parameters():
            found["adam"] = optim.Adam(noise, lr=self.recipe.noise_lr)
        return found

    def _digest(self) -> str:
        found = hashlib.sha256()
        for row in self.rows:
            found.update(f"{self.source.sample[row]}\0{self.source.identity[row]}\n".encode())
        return found.hexdigest()

    def restore(self, start_from: str | Path | None) -> None:
        at, start = self.position, None
        if start_from is not None:
            path = Path(start_from) / MODEL
            start, _ = read_tensors(path, "start from a folder that faceblind frequency train made")
            at.started_from = sha256_file(path)
        position = load_checkpoint(
            self.folder,
            self.modules,
            self.optimisers,
            recipe=self.recipe,
            faces=at.faces,
            started_from=at.started_from,
        )
        write_json(self.folder / RECIPE, self.recipe.to_dict())
        if position is not None:
            self.position = position
            if position.scaler:
                self.scaler.load_state_dict(position.scaler)
            return
        if start is not None:
            load_part(self.model.backbone, "backbone", start, path)
        # Also where it is calibrated by definition: the accounting compares noise with the signal's spread.
        self.model.release.calibrate(
            calibration(self.source, self.rows, self.recipe.batch),
            lambda done, of: self.progress("calibrating", done, of or self.rows.size),
        )

    def train(self, save_every: int) -> None:
        self.model.train()
        while self.position.epoch < self.recipe.epochs:
            self._epoch(save_every)

    def _epoch(self, save_every: int) -> None:
        at = self.position
        order = np.random.default_rng([self.recipe.seed, at.epoch]).permutation(self.rows)
        cut = [part for part in parts(order, self.recipe.batch) if part.size > 1]
        started, before = time.monotonic(), at.seconds
        for rows, pixels in read_batches(self.source, cut[at.step :]):
            self._step(rows, pixels, len(cut))
            at.step += 1
            at.seconds = before + time.monotonic() - started
            self.progress(f"epoch {at.epoch + 1} of {self.recipe.epochs}", at.step, len(cut))
            if at.step % save_every == 0 and at.step < len(cut):
                self._check()
                self._save()
        at.log.append(
            {
                "epoch": at.epoch + 1,
                "loss": at.loss / max(at.seen, 1),
                "accuracy": at.right / max(at.seen, 1),
                "lr_factor": self.recipe.factor(at.epoch),
                "seconds": round(at.seconds, 3),
                "images": at.seen,
            }
        )
        self._check()
        at.epoch, at.step, at.loss, at.right, at.seen, at.seconds = at.epoch + 1, 0, 0.0, 0, 0, 0.0
        self._save()

    def _step(self, rows: NDArray[np.intp], pixels: Tensor, steps: int) -> None:
        at = self.position
        drawn = np.random.SeedSequence([self.recipe.seed, at.epoch, at.step]).generate_state(3, np.uint64) >> np.uint64(
            1
        )
        mirrored, noise = (
            torch.Generator(d).manual_seed(int(s)) for d, s in zip(("cpu", self.device), drawn, strict=False)
        )
        label = self.label[torch.from_numpy(rows)].to(self.device)
        if self.recipe.flip:
            which = torch.rand(len(rows), generator=mirrored) < 0.5
            pixels = torch.where(which[:, None, None, None], pixels.flip(3), pixels)
        factor = self.recipe.factor(at.epoch + at.step / steps)
        for name, optimiser in self.optimisers.items():
            for group in optimiser.param_groups:
                group["lr"] = (self.recipe.noise_lr if name == "adam" else self.recipe.lr) * factor
            optimiser.zero_grad(set_to_none=True)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(drawn[2]))  # dropout knows no generator of its own
            released = self.model.release(pixels.to(self.device), noise)
            tensor = released.tensor.contiguous(memory_format=self.model.layout)
            with torch.autocast(self.device.type, dtype=self.kind, enabled=self.recipe.precision != "float32"):
                embedded = self.model.backbone(tensor)
            cosines = self.head.cosines(embedded)
            loss = self.head.loss(cosines, label, released.partners, released.weights)
            penalty = self.model.release.penalty()
            total = loss if penalty is None else loss + penalty
            if not math.isfinite(value := float(loss.detach())):
                raise self._diverged(f"the loss is {value}", at.step + 1)
            torch.autograd.backward(self.scaler.scale(total))
        for optimiser in self.optimisers.values():
            self.scaler.step(optimiser)
        self.scaler.update()
        at.loss += value * len(rows)
        at.right += int((cosines.detach().argmax(dim=1) == label).sum())
        at.seen += len(rows)

    def _diverged(self, what: str, step: int) -> UsageError:
        where = f"epoch {self.position.epoch + 1}, step {step}"
        kept = (
            f"; the state at its last checkpoint is kept in {CHECKPOINT}" if (self.folder / CHECKPOINT).exists() else ""
        )
        return UsageError(
            f"training diverged: {what} in {where}; lower lr or noise_lr, or raise warmup, and train into another folder{kept}"
        )

    def _check(self) -> None:
        # The loss of a step is taken before its update: weights that the last update spoiled show here at the latest.
        for part, module in self.modules.items():
            for name, value in module.state_dict().items():
                if value.is_floating_point() and not bool(value.isfinite().all()):
                    raise self._diverged(f"{part}.{name} is not finite", self.position.step)

    def _save(self) -> None:
        self.position.scaler = self.scaler.state_dict() if self.scaler.is_enabled() else {}
        save_checkpoint(self.folder, self.modules, self.optimisers, self.position)

    def finish(self, people: int) -> TrainingResult:
        self.model.eval()
        save_model(self.folder, self.model, self.head)
        log = self.position.log
        record = {
            "people": people,
            "images": int(self.rows.size),
            "epochs": self.recipe.epochs,
            "final_loss": log[-1]["loss"] if log else None,
            "seconds": round(sum(entry["seconds"] for entry in log), 3),
            "device": str(self.device),
            "torch": torch.__version__,
            "faces": self.position.faces,
            "started_from": self.position.started_from or None,
            "account": self.model.release.account(),
            "log": log,
        }
        write_json(self.folder / TRAINING, record)
        return TrainingResult(self.folder, self.model, people, int(self.rows.size), tuple(log))
