"""Margin losses of face recognition: ArcFace and CosFace.

Sources: ArcFace (arXiv 1801.07698) adds a margin to the angle of the true class, CosFace (arXiv 1801.09414) takes it off the
cosine. Both scale cosines by s and train them with the cross-entropy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from faceblind._errors import UsageError

HEADS = ("arcface", "cosface")
_EDGE = 1 - 1e-6  # the slope of arccos is infinite at 1


class MarginHead(nn.Module):
    """Cosines to one centre per person, the true one made harder by a margin.

    Parameters
    ----------
    kind
        ``arcface`` or ``cosface``.
    embedding, people
        Length of the embeddings; number of classes.
    s, m
        Scale and margin (an angle in radians for ArcFace, a cosine for CosFace).

    Raises
    ------
    UsageError
        An unknown head, fewer than two people, or scale and margin out of range.
    """

    def __init__(self, kind: str, embedding: int, people: int, *, s: float = 64.0, m: float = 0.4) -> None:
        super().__init__()
        if kind not in HEADS:
            raise UsageError(f"unknown head {kind!r}; there are {', '.join(HEADS)}")
        if people < 2:
            raise UsageError(f"a head needs at least two people to tell apart, got {people}")
        if not (s > 0 and 0 <= m < (math.pi / 2 if kind == "arcface" else 1)):
            raise UsageError(
                f"s must be positive and m in [0, {'pi/2' if kind == 'arcface' else '1'}), got s={s}, m={m}"
            )
        self.kind, self.s, self.m = kind, float(s), float(m)
        self.weight = nn.Parameter(torch.empty(people, embedding))
        nn.init.normal_(self.weight, std=0.01)

    def cosines(self, embeddings: Tensor) -> Tensor:
        """Return cosines to all centres, (b, people), in float32 whatever the rest runs in."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return functional.linear(
                functional.normalize(embeddings.float()), functional.normalize(self.weight.float())
            )

    def logits(self, cosines: Tensor, label: Tensor) -> Tensor:
        """Return scaled cosines with the margin on the true class.

        Past the angle at which the cosine of angle + m would rise again, ArcFace takes ``m sin m`` off the cosine.
        """
        true = cosines.gather(1, label[:, None])
        if self.kind == "cosface":
            harder = true - self.m
        else:
            inside = true.clamp(-_EDGE, _EDGE)
            turned = inside * math.cos(self.m) - (1 - inside**2).sqrt() * math.sin(self.m)
            harder = torch.where(true > math.cos(math.pi - self.m), turned, true - self.m * math.sin(self.m))
        return self.s * cosines.scatter(1, label[:, None], harder)

    def loss(
        self, cosines: Tensor, label: Tensor, partners: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Return the mean loss of a batch.

        Parameters
        ----------
        cosines : (b, people)
            Of `cosines`.
        label : (b,) int64
        partners, weights : (b, k), optional
            Rows of the batch that were mixed into each, and their shares: the loss is mixed as the images were.
        """
        if partners is None or weights is None:
            return functional.cross_entropy(self.logits(cosines, label), label)
        total = cosines.new_zeros(())
        for k in range(partners.shape[1]):
            of = label[partners[:, k]]
            each = functional.cross_entropy(self.logits(cosines, of), of, reduction="none")
            total = total + (weights[:, k] * each).mean()
        return total

    def forward(self, embeddings: Tensor, label: Tensor) -> Tensor:
        """Return the mean loss of embeddings (b, d) of people `label` (b,)."""
        return self.loss(self.cosines(embeddings), label)
