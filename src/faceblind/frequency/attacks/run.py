"""Run attacks on a release and measure them; finished ones are kept, so that a run can go on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind._files import atomic_path
from faceblind.frequency.attacks.base import Attack, Public, View
from faceblind.frequency.attacks.catalogue import LINKAGE
from faceblind.frequency.attacks.judge import Judge, feature_similarity, reidentify
from faceblind.frequency.attacks.linkage import Embed, link
from faceblind.frequency.attacks.targets import Targets
from faceblind.frequency.batches import generator_of, tensor_of
from faceblind.frequency.quality import constant_floor, over_people, psnr, ssim
from faceblind.frequency.record import read_json, write_json
from faceblind.frequency.releases.base import Release

Progress = Callable[[str, int, int], None]


def run_attacks(
    release: Release,
    targets: Targets,
    public: Public,
    attacks: Sequence[Attack],
    output: Path,
    *,
    judge: Judge | None = None,
    seed: int = 0,
    batch: int = 32,
    gallery: int = 4,
    far: float = 1e-2,
    key: str = "",
    embed: Embed | None = None,
    progress: Progress = lambda _what, _done, _of: None,
) -> dict[str, Any]:
    """Release the targets, run every attack on them, and return the part of the record about attacks.

    Parameters
    ----------
    release
        As it is used: calibrated, trained.
    output
        Folder for ``attacks/NAME.json`` and ``gallery/*.png``, which the record names relative to it.
    judge
        A face recogniser; without one there is no similarity and no re-identification.
    gallery
        Faces to show.
    far
        Target FAR of re-identification.
    key
        What else results depend on, such as a digest of the model: finished attacks with another key are run again.
    embed
        The network behind the release, from releases (b, C, h, w) to embeddings (b, d); with it, releases are linked as well.
    """
    if shared := set(public.identity.tolist()) & set(targets.identity.tolist()):
        raise DataError(f"{len(shared)} people are both the attacker's own and targets, such as {min(shared)!r}")
    release.eval()
    hashed = hashlib.sha256()
    for faces in (targets.pixels, public.pixels):
        hashed.update(np.ascontiguousarray(faces).data)
    hashed.update(f"{key} {seed} {batch} {far} {judge is not None}".encode())
    digest = hashed.hexdigest()
    shown = [int(np.flatnonzero(targets.identity == name)[0]) for name in np.unique(targets.identity)[:gallery]]
    embedded = None if judge is None else (judge(targets.pixels), judge(targets.gallery))
    records = []
    for attack in attacks:
        path = output / "attacks" / f"{attack.name}.json"
        if (kept := _finished(path, digest, "attack")) is not None:
            records.append(kept)
            continue

        def told(done: int, of: int, what: str = attack.name) -> None:
            progress(f"preparing {what}", done, of)

        attack.prepare(release, public, seed=seed, progress=told)
        parts = []
        for number, start in enumerate(range(0, len(targets.pixels), batch)):
            progress(attack.name, start, len(targets.pixels))
            parts.append(attack.recover(_view(release, targets, public, slice(start, start + batch), seed, number)))
        recovered = np.concatenate(parts)
        record = {
            "attack": attack.name,
            "title": attack.title,
            "holds": attack.holds,
            "denoised": attack.name.endswith("-nlm"),
            "images": len(recovered),
            "people": int(np.unique(targets.identity).size),
            **_measured(recovered, targets, seed),
            **_judged(recovered, targets, judge, embedded, far, seed),
            "gallery": [_png(output, f"{attack.name}-{i}", recovered[row]) for i, row in enumerate(shown)],
        }
        _finish(path, digest, "attack", record)
        records.append(record)
    linkage: list[dict[str, Any]] = []
    if embed is not None:
        path = output / "attacks" / f"{LINKAGE}.json"
        linkage = _finished(path, digest, LINKAGE) or link(
            release, embed, targets, public, far=far, seed=seed, progress=partial(progress, LINKAGE)
        )
        _finish(path, digest, LINKAGE, linkage)
    flat = constant_floor(public.pixels, targets.pixels)
    return {
        "digest": digest,
        "attacks": records,
        "linkage": linkage,
        "floor": _measured(flat, targets, seed),
        "gallery": {
            "original": [_png(output, f"original-{i}", targets.pixels[row]) for i, row in enumerate(shown)],
            "channels": _channels(release, targets.pixels[shown[:1]], output, seed),
        },
    }


def _finished(path: Path, digest: str, part: str) -> Any:
    """Return what a run with this digest has kept, None where none has."""
    if not path.exists():
        return None
    kept = read_json(path, "delete it and run the attacks again")
    return kept[part] if kept["digest"] == digest else None


def _finish(path: Path, digest: str, part: str, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"digest": digest, part: found})


def _view(release: Release, targets: Targets, public: Public, rows: slice, seed: int, number: int) -> View:
    right = targets.pixels[rows]
    wrong = public.pixels[np.random.default_rng([seed, number]).integers(0, len(public.pixels), len(right))]
    return View.of(release, right, wrong, generator_of(seed, number))


def _measured(recovered: NDArray[Any], targets: Targets, seed: int) -> dict[str, Any]:
    return {
        "psnr": over_people(psnr(recovered, targets.pixels), targets.identity, seed=seed),
        "ssim": over_people(ssim(recovered, targets.pixels), targets.identity, seed=seed),
    }


def _judged(
    recovered: NDArray[np.float32],
    targets: Targets,
    judge: Judge | None,
    embedded: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
    far: float,
    seed: int,
) -> dict[str, Any]:
    if judge is None or embedded is None:
        return {"similarity": None, "reid": None}
    original, gallery = embedded
    found = judge(np.clip(np.rint(recovered), 0, 255).astype(np.uint8))
    return {
        "similarity": feature_similarity(found, original, targets.identity, seed=seed),
        "reid": reidentify(found, original, gallery, targets.identity, targets.gallery_identity, far=far, seed=seed),
    }


def _channels(release: Release, images: NDArray[np.uint8], output: Path, seed: int) -> list[list[str]]:
    """Draw the channels with the most signal of one release, blue below and orange above the middle."""
    with torch.no_grad():
        released = release(tensor_of(images), torch.Generator().manual_seed(seed)).tensor[0].numpy()
        clean = release(tensor_of(images), noise=False).tensor[0].numpy()
    names = getattr(release, "channels", ("R", "G", "B"))
    found = []
    for channel in np.argsort(-clean.reshape(len(clean), -1).std(axis=1), kind="stable")[:3]:
        values = released[channel]
        limit = float(np.quantile(np.abs(values), 0.98)) or 1.0
        share = np.clip(values / limit, -1, 1)[..., None]
        low, high, middle = (np.array(c, float) for c in ((33, 102, 172), (217, 95, 2), (247, 247, 247)))
        picture = middle + np.abs(share) * (np.where(share < 0, low, high) - middle)
        found.append([_png(output, f"channels-{channel}", picture), str(names[int(channel)])])
    return found


def _png(output: Path, name: str, image: NDArray[Any]) -> str:
    from PIL import Image

    path = output / "gallery" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        Image.fromarray(np.clip(np.rint(image), 0, 255).astype(np.uint8)).save(temporary, format="PNG")
    return f"gallery/{name}.png"
