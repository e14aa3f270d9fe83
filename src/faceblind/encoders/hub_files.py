"""Where a checkpoint's files are: a folder the user has, the hub's cache, or the model hub.

Only three kinds of files are fetched: the configuration, the preprocessing and one set of weights. Nothing a
repository brings along is ever run.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from faceblind._errors import EncoderError
from faceblind._files import sha256_file
from faceblind.encoders.device import import_extra

CONFIG = "config.json"
PREPROCESSING = ("preprocessor_config.json", "processor_config.json")
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_SHARD_NAMES = "weight_map"
_STORING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}


@dataclass(frozen=True, kw_only=True)
class HubFolder:
    """The files of one checkpoint, all in one folder, as the hub lays them out."""

    folder: Path
    source: str
    """What the user named, for messages."""
    preprocessing: Path
    weights: tuple[Path, ...]
    """The weight file, or the shards in order of their names."""

    @property
    def safetensors(self) -> bool:
        """Weights are safetensors; otherwise a torch archive, of which only tensors are read."""
        return self.weights[0].suffix == ".safetensors"

    def config(self) -> dict[str, Any]:
        """Read ``config.json``."""
        return _read_json(self.folder / CONFIG)

    def sha256(self) -> str:
        """SHA-256 of the weight file, as the hub shows it; of shards, of the list of theirs."""
        if len(self.weights) == 1:
            return sha256_file(self.weights[0])
        lines = [f"{sha256_file(shard)}  {shard.name}" for shard in self.weights]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def local_folder(path: Path) -> HubFolder:
    """Find a checkpoint in a folder, or around a weight file.

    Raises
    ------
    EncoderError
        There is no such folder, or a file is missing in it.
    """
    if not path.exists():
        raise EncoderError(f"no such folder of weights: {path}")
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.name not in _WEIGHTS:
        raise EncoderError(
            f"{path} is not how a hub checkpoint calls its weights: name the folder with {CONFIG}, "
            f"{PREPROCESSING[0]} and {_WEIGHTS[0]}"
        )

    def find(name: str) -> Path | None:
        found = folder / name
        return found if found.is_file() else None

    return _collect(find, str(folder), f"put the files of the model's repository into {folder}")


def hub_folder(repository: str, *, revision: str | None = None, how_to_get: str = "") -> HubFolder:
    """Find a checkpoint in the hub's cache, or download it there.

    Raises
    ------
    EncoderError
        The hub cannot be reached, or it does not give the files; says which and what to do.
    MissingExtraError
        ``huggingface_hub`` is not installed.
    """
    hub = import_extra("huggingface_hub", f"weights of {repository}")
    errors = import_extra("huggingface_hub.errors", f"weights of {repository}")

    caught = (OSError, RuntimeError, ValueError, errors.EntryNotFoundError, errors.HTTPError)
    failures: list[Exception] = []

    def find(name: str) -> Path | None:
        try:
            return Path(hub.hf_hub_download(repository, name, revision=revision))
        except caught as error:
            if not isinstance(error, errors.RemoteEntryNotFoundError):
                failures.append(error)  # what is not in the cache may still be there under another name
            return None

    try:
        return _collect(find, repository, "name another repository")
    except EncoderError as error:
        if not failures:
            raise
        raise EncoderError(_why_not(failures[0], errors, hub, repository, how_to_get)) from error


def _collect(find: Callable[[str], Path | None], source: str, fix: str) -> HubFolder:
    config = find(CONFIG)
    if config is None:
        raise EncoderError(f"{source} has no {CONFIG}, so it is no transformers checkpoint: {fix}")
    preprocessing = next((found for name in PREPROCESSING if (found := find(name))), None)
    if preprocessing is None:
        raise EncoderError(f"{source} has no {PREPROCESSING[0]}, which says how photographs are prepared: {fix}")
    weights = next((found for name in _WEIGHTS if (found := find(name))), None)
    if weights is None:
        raise EncoderError(f"{source} has no weights (none of {', '.join(_WEIGHTS)}): {fix}")
    files = [weights]
    if weights.suffix == ".json":
        files = []
        for shard in _shards(weights):
            found = find(shard)
            if found is None:
                raise EncoderError(f"{source} lacks {shard}, named in {weights.name}: {fix}")
            files.append(found)
    return HubFolder(folder=config.parent, source=source, preprocessing=preprocessing, weights=tuple(files))


def _shards(index: Path) -> list[str]:
    names = _read_json(index).get(_SHARD_NAMES)
    if not isinstance(names, dict) or not names:
        raise EncoderError(f"{index} has no {_SHARD_NAMES!r}: download it again")
    shards = sorted({str(name) for name in names.values()})
    for shard in shards:
        if PurePosixPath(shard).name != shard or "\\" in shard:
            raise EncoderError(f"{index} names a file outside its folder: {shard!r}")
    return shards


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON ({error}): download it again") from error
    if not isinstance(data, dict):
        raise EncoderError(f"{path} is not a JSON object: download it again")
    return data


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _why_not(error: BaseException, errors: Any, hub: Any, repository: str, how_to_get: str) -> str:
    """Say in one line why the hub gave nothing, and what to do."""
    at = hub.constants.ENDPOINT
    chain = list(_causes(error))
    statuses = [c.response.status_code for c in chain if isinstance(c, errors.HfHubHTTPError)]
    if any(isinstance(cause, errors.GatedRepoError) for cause in chain):
        how = how_to_get or f"accept the licence at {at}/{repository}, then run: hf auth login"
        return f"{repository} is gated and this account has no access to it: {how}"
    if any(isinstance(cause, errors.RevisionNotFoundError) for cause in chain):
        return f"{repository} has no such revision: name a branch, tag or commit that it has"
    if any(isinstance(cause, errors.RepositoryNotFoundError) for cause in chain):
        return (
            f"there is no repository {repository} at {at}, or it is not public: check its name; "
            "for a private one run: hf auth login"
        )
    if any(isinstance(cause, errors.HFValidationError) for cause in chain):
        return f"{repository!r} is neither a folder here nor the name of a repository (OWNER/NAME)"
    if 401 in statuses or 403 in statuses:
        return f"{at} refuses access to {repository} ({max(statuses)}): check your token, or run: hf auth login"
    full = next((c for c in chain if isinstance(c, OSError) and c.errno in _STORING), None)
    if full is not None:
        return f"{repository} cannot be stored in the hub's cache ({hub.constants.HF_HUB_CACHE}): {full.strerror}"
    offline = hub.constants.HF_HUB_OFFLINE or any(isinstance(c, errors.OfflineModeIsEnabled) for c in chain)
    if offline:
        return (
            f"{repository} is not in the hub's cache ({hub.constants.HF_HUB_CACHE}) and HF_HUB_OFFLINE is set: "
            "download it first, or name a folder with --weights"
        )
    what = f"answers {statuses[0]}" if statuses else "cannot be reached"
    return (
        f"the model hub {what} ({at}) and {repository} is not in its cache ({hub.constants.HF_HUB_CACHE}): "
        "try again, or name a folder that has its files with --weights"
    )
