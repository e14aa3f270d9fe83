"""Rendering synthetic people to a folder of PNG files, so that an interrupted run can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, FormatError
from faceblind._files import atomic_path, write_text
from faceblind.faces.synthetic.people import SyntheticPeople, identity_name, sample_name

RECORD = "synthetic.json"
"""Name of the folder's record: its parameters, and every image's labels."""
SOURCE = "synthetic portrait rendered by faceblind"
"""Text of the "Source" chunk in every PNG."""
GENERATOR = "faceblind.faces.synthetic"
VERSION = 1
"""Raised whenever the same parameters would give other pictures."""

Task = tuple[int, int]
Progress = Callable[[int, int], object]


def render_folder(
    folder: str | Path,
    people: int,
    images_per_person: int,
    *,
    seed: int = 0,
    size: int = 256,
    workers: int = 1,
    progress: Progress | None = None,
) -> int:
    """Render ``person-0007/03.png`` and so on into `folder`, with their labels in ``synthetic.json``.

    Files that are there, whole and of the same parameters are kept. Each file is written under a temporary name and
    renamed. While a run is going on the record lists no images.

    Parameters
    ----------
    folder : path
        Made if missing.
    people, images_per_person, seed, size
        As for `SyntheticPeople`.
    workers : int
        Processes to render with; 1 renders in this one.
    progress : callable, optional
        Called as ``progress(done, total)`` after each image, kept ones included.

    Returns
    -------
    int
        Number of images rendered, so 0 when the folder was complete.

    Raises
    ------
    DataError
        The folder holds a record of other parameters, or a number is out of range.
    FormatError
        The folder's record cannot be read.
    OutputError
        The folder cannot be written.
    """
    if workers < 1:
        raise DataError(f"workers is {workers}: at least 1 process must render")
    data = SyntheticPeople(people, images_per_person, seed=seed, size=size)
    folder = Path(folder)
    head = _parameters(data)
    _refuse_other_parameters(folder / RECORD, head)
    write_text(folder / RECORD, _record(head, []))

    tasks = [(person, shot) for person in range(people) for shot in range(images_per_person)]
    missing = [task for task in tasks if not _whole(folder, data, *task)]
    done = len(tasks) - len(missing)
    if progress is not None and done:
        progress(done, len(tasks))
    for _ in _rendered(folder, data, missing, workers):
        done += 1
        if progress is not None:
            progress(done, len(tasks))
    images = [
        {
            "sample": sample_name(person, shot),
            "identity": identity_name(person),
            "background": data.shot(person, shot).background,
            "landmarks": [[round(float(v), 3) for v in point] for point in data.landmarks(person, shot)],
        }
        for person, shot in tasks
    ]
    write_text(folder / RECORD, _record(head, images))
    return len(missing)


def _parameters(data: SyntheticPeople) -> dict[str, Any]:
    return {
        "synthetic": True,
        "generator": GENERATOR,
        "version": VERSION,
        "seed": data.seed,
        "people": data.people,
        "images_per_person": data.images_per_person,
        "size": data.size,
    }


def _record(head: dict[str, Any], images: list[dict[str, Any]]) -> str:
    """JSON with one image a line, so that a text diff says which image differs."""
    opening = json.dumps(head, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(image) for image in images)
    body = f"[\n{lines}\n  ]" if images else "[]"
    return f'{opening},\n  "images": {body}\n}}\n'


def _refuse_other_parameters(path: Path, head: dict[str, Any]) -> None:
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is not JSON ({error}): remove it, or render into another folder") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path} is not a record of synthetic people: remove it, or render into another folder")
    differing = [f"{name} is {found.get(name)!r} there, {value!r} here" for name, value in head.items()]
    differing = [text for text, (name, value) in zip(differing, head.items(), strict=True) if found.get(name) != value]
    if differing:
        raise DataError(
            f"{path.parent} holds synthetic people of other parameters ({'; '.join(differing)}): "
            "render into another folder, or remove this one first"
        )


def _stamp(data: SyntheticPeople, person: int, shot: int) -> str:
    """Say in a PNG what it is, so that a file of other parameters is never taken for a finished one."""
    return f"{GENERATOR} version={VERSION} seed={data.seed} person={person} shot={shot} size={data.size}"


def _whole(folder: Path, data: SyntheticPeople, person: int, shot: int) -> bool:
    from faceblind.faces.synthetic.pillow import Image

    path = folder / sample_name(person, shot)
    if not path.is_file():
        return False
    try:
        with Image.open(path) as image:
            image.load()
            return bool(
                image.size == (data.size, data.size)
                and image.info.get("Source") == SOURCE
                and image.info.get("Description") == _stamp(data, person, shot)
            )
    except (OSError, SyntaxError, ValueError):  # Pillow raises all three on damaged files
        return False


def _rendered(folder: Path, data: SyntheticPeople, tasks: list[Task], workers: int) -> Iterator[Task]:
    """Render the tasks, yielding each when its file is in place."""
    if workers == 1 or len(tasks) < 2:
        for task in tasks:
            _render_one(folder, data, task)
            yield task
        return
    # Fresh processes rather than forks: the caller may run threads.
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"))
    try:
        pending = {pool.submit(_render_one, folder, data, task): task for task in tasks}
        for future in as_completed(pending):
            future.result()
            yield pending[future]
    finally:
        pool.shutdown(cancel_futures=True)


def _render_one(folder: Path, data: SyntheticPeople, task: Task) -> None:
    from faceblind.faces.synthetic.pillow import Image, PngImagePlugin

    portrait = data.portrait(*task)
    text = PngImagePlugin.PngInfo()
    text.add_text("Source", SOURCE)
    text.add_text("Description", _stamp(data, *task))
    with atomic_path(folder / portrait.sample) as temporary:
        Image.fromarray(portrait.image).save(temporary, "PNG", pnginfo=text, compress_level=6)
