"""Recognition networks with a stem for any number of channels: IR-18, IR-50 and ResNet-50.

IR is the residual network of ArcFace (arXiv 1801.07698): 3 x 3 convolutions between normalisations, PReLU, stride in the
second convolution. The stem keeps the resolution, since the paper's input has the size of the image already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from faceblind._errors import UsageError

IR_UNITS = {"ir18": (2, 2, 2, 2), "ir50": (3, 4, 14, 3)}
RESNET_UNITS = {"resnet50": (3, 4, 6, 3)}
BACKBONES = (*IR_UNITS, *RESNET_UNITS)


def make_backbone(
    name: str,
    shape: tuple[int, int, int],
    *,
    width: int = 64,
    embedding: int = 512,
    dropout: float = 0.4,
    normalise: bool = False,
) -> nn.Module:
    """Make a network from (b, C, h, w) to (b, embedding).

    Parameters
    ----------
    name
        ``ir18``, ``ir50`` or ``resnet50``.
    shape
        Channels, height and width of what is released.
    width
        Channels of the first stage; 64 in the papers.
    normalise
        Bring every released channel to unit variance first. The published code does not; calibrated noise differs between
        channels by orders of magnitude, and the loudest would drown the rest.

    Raises
    ------
    UsageError
        An unknown name, or a release too small for four halvings.
    """
    if min(shape[1:]) < 16:
        raise UsageError(
            f"a release of {shape[1]} x {shape[2]} is too small for {name}, which halves it four times: at least 16"
        )
    if width < 1 or embedding < 1:
        raise UsageError(f"width and embedding must be at least 1, got {width} and {embedding}")
    if name not in BACKBONES:
        raise UsageError(f"unknown backbone {name!r}; there are {', '.join(BACKBONES)}")
    residual = name in IR_UNITS
    units = IR_UNITS[name] if residual else RESNET_UNITS[name]
    unit, growth = (IrUnit, 1) if residual else (Bottleneck, 4)
    network = Backbone(shape, units, unit, width=width, growth=growth, embedding=embedding, dropout=dropout)
    if normalise:
        network.entry = nn.BatchNorm2d(shape[0], affine=False)
    return network


class IrUnit(nn.Module):
    """Norm, 3 x 3, norm, PReLU, 3 x 3 with the stride, norm; added to a projected or subsampled input."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.PReLU(out),
            nn.Conv2d(out, out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut: nn.Module = (
            nn.MaxPool2d(1, stride)
            if channels == out
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the input."""
        found: Tensor = self.body(x) + self.shortcut(x)
        return found


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 with the stride, 1 x 1 to four times the channels, each normalised; added to the input."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        inner = out // 4
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut: nn.Module = (
            nn.Identity()
            if channels == out and stride == 1
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))
        )
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the input."""
        found: Tensor = self.last(self.body(x) + self.shortcut(x))
        return found


class Backbone(nn.Module):
    """A stem, four stages that halve the resolution, and the normalised embedding layer of ArcFace."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        units: Sequence[int],
        unit: Callable[[int, int, int], nn.Module],
        *,
        width: int,
        growth: int,
        embedding: int,
        dropout: float,
    ) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.shape = shape
        self.entry: nn.Module = nn.Identity()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.PReLU(width)
        )
        stages, inside = [], width
        for stage, count in enumerate(units):
            out = width * 2**stage * growth
            stages += [unit(inside if i == 0 else out, out, 2 if i == 0 else 1) for i in range(count)]
            inside = out
            height, breadth = (height + 1) // 2, (breadth + 1) // 2
        self.stages = nn.Sequential(*stages)
        self.output = nn.Sequential(
            nn.BatchNorm2d(inside),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(inside * height * breadth, embedding),
            nn.BatchNorm1d(embedding),
        )
        self.apply(_start)

    def forward(self, x: Tensor) -> Tensor:
        """Embed releases (b, C, h, w) as (b, embedding), not normalised."""
        found: Tensor = self.output(self.stages(self.stem(self.entry(x))))
        return found


def _start(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
