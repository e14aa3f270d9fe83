"""A release and the network that recognises people in it; saved and loaded as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from faceblind._errors import FormatError
from faceblind._files import write_bytes
from faceblind.encoders.device import choose_device
from faceblind.frequency.backbones import make_backbone
from faceblind.frequency.heads import MarginHead
from faceblind.frequency.recipe import Recipe, digest_of
from faceblind.frequency.record import MODEL, RECIPE, read_json
from faceblind.frequency.releases.base import Release
from faceblind.frequency.releases.registry import open_release

_HEADER = "faceblind.frequency"


class Recogniser(nn.Module):
    """A release with a backbone behind it.

    Attributes
    ----------
    release
        What leaves the camera.
    backbone
        From a release to an embedding.
    recipe
        How it was, or is to be, trained.
    """

    def __init__(self, recipe: Recipe, release: Release | None = None) -> None:
        super().__init__()
        self.recipe = recipe
        self.release = release or open_release(recipe.release, recipe.size, recipe.config)
        self.backbone = make_backbone(
            recipe.backbone,
            self.release.shape,
            width=recipe.width,
            embedding=recipe.embedding,
            dropout=recipe.dropout,
            normalise=recipe.normalise,
        )

    @property
    def layout(self) -> torch.memory_format:
        """How images lie in memory: channels last is faster, where it is sound."""
        # With torch 2.13 on a CPU, gradients of channels-last convolutions of 4 channels corrupt the heap.
        return torch.channels_last if self.recipe.width % 8 == 0 else torch.contiguous_format

    def lay_out(self) -> None:
        """Put the weights in `layout`."""
        self.backbone.to(memory_format=self.layout)  # type: ignore[call-overload]

    def embed_released(self, tensor: Tensor) -> Tensor:
        """Embed releases (b, C, h, w) as unit rows (b, d): what the server does."""
        return functional.normalize(self.backbone(tensor.contiguous(memory_format=self.layout)))

    def embed(
        self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True, flip: bool = False
    ) -> Tensor:
        """Release pixels (b, 3, H, W) and embed them.

        Parameters
        ----------
        noise
            As the mechanism demands; without noise is for comparisons only.
        flip
            Add the embedding of the mirrored face, as the usual protocols do. That is a second release: it spends the budget
            twice.
        """
        found = self.embed_released(self.release(pixels, generator, noise=noise).tensor)
        if flip:
            found = found + self.embed_released(self.release(pixels.flip(3), generator, noise=noise).tensor)
        return functional.normalize(found)


def save_model(folder: Path, model: Recogniser, head: MarginHead) -> None:
    """Write release, backbone and head to ``model.safetensors``, atomically. Noise is part of it."""
    from safetensors.torch import save

    tensors = tensors_of({"release": model.release, "backbone": model.backbone, "head": head})
    header = {_HEADER: json.dumps({"recipe": model.recipe.digest, "people": head.weight.shape[0]})}
    write_bytes(folder / MODEL, save(tensors, metadata=header))


def load_model(folder: str | Path, *, device: str = "cpu") -> Recogniser:
    """Load a trained model, in the state for use.

    Raises
    ------
    FormatError
        A missing or damaged file, or weights that are not those of the recipe.
    UsageError, EncoderError
        No such device.
    """
    folder = Path(folder)
    chosen, _ = choose_device(torch, device, "float32")
    values = read_json(folder / RECIPE, "make the folder with: faceblind frequency train")
    model = Recogniser(Recipe.from_dict(values))
    found, header = read_tensors(folder / MODEL, "train it with: faceblind frequency train")
    # A run that began anew in the folder of a finished one has written its recipe, but no weights yet.
    if header.get("recipe") != digest_of(values):
        raise FormatError(
            f"{folder / MODEL} was not trained with {RECIPE} beside it; finish the run with: faceblind frequency train"
        )
    for name, module in (("release", model.release), ("backbone", model.backbone)):
        load_part(module, name, found, folder / MODEL)
    return model.to(chosen).eval()


def tensors_of(modules: dict[str, nn.Module]) -> dict[str, Tensor]:
    """Return the tensors of modules under their names, as safetensors takes them."""
    return {
        f"{name}.{key}": value.detach().cpu().contiguous()
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }


def read_tensors(path: Path, fix: str, *, header: str = _HEADER) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors of a safetensors file and its JSON header; the header is empty when it has none of that name.

    Raises
    ------
    FormatError
        Missing (the message then says `fix`) or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            said = json.loads((file.metadata() or {}).get(header, "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, said  # noqa: SIM118
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; {fix}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise FormatError(f"{path} is damaged ({error}); {fix}") from error


def load_part(module: nn.Module, name: str, tensors: dict[str, Tensor], path: Path) -> None:
    """Load the tensors under a name into a module: all of them, and no others.

    Raises
    ------
    FormatError
        Tensors are missing, left over, or of another shape.
    """
    wanted = module.state_dict()
    given = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
    missing, unused = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
    wrong = [key for key in set(wanted) & set(given) if wanted[key].shape != given[key].shape]
    if missing or unused or wrong:
        raise FormatError(
            f"{path} does not fit the recipe: {name} lacks {missing[:3] or 'nothing'}, has unused {unused[:3] or 'nothing'}, "
            f"and other shapes for {sorted(wrong)[:3] or 'nothing'}; recipe.json and the weights belong to different runs"
        )
    module.load_state_dict(given)
