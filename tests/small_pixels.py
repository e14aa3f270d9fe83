"""Random pixels of eight by eight for tests of releases."""

from __future__ import annotations

import torch

SIZE = (8, 8)


def pixels(seed=0, count=12):
    return torch.randint(0, 256, (count, 3, *SIZE), generator=torch.Generator().manual_seed(seed)).float()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batches(count=5):
    return lambda: iter([(pixels(k), [f"p{i // 2}" for i in range(12)]) for k in range(count)])
