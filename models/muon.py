"""Muon for matrices and convolutions, AdamW for the rest.

`torch.optim.Muon` takes two-dimensional parameters only; the autoencoder is all convolutions, which
here count as matrices (output channels x everything else). Equal shapes are orthogonalized as one
batch, which on a CPU is several times faster than one by one. Source: Keller Jordan's Muon, 2024.
"""

from collections import defaultdict
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from models.training import Rank

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(batch: Tensor, iterations: int = 5) -> Tensor:
    """Return matrices (N, rows, columns) with singular values pushed towards 1 (Newton-Schulz)."""
    a, b, c = _COEFFICIENTS
    norm_N11 = cast("Tensor", torch.linalg.vector_norm(batch, dim=(1, 2), keepdim=True))
    x = batch / (norm_N11 + 1e-7)
    transposed = x.shape[1] > x.shape[2]
    x = x.mT if transposed else x
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if transposed else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized per matrix; step size scaled by sqrt(max(1, rows / columns))."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        rank: Rank | None = None,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        self.rank_index, self.num_ranks = (rank.index, rank.count) if rank else (0, 1)

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  gradients are there: no closure
        self, closure: None = None
    ) -> None:
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            updates = [self._momentum(p, p.grad, group["momentum"]) for p in parameters]
            for p, update in zip(parameters, self._orthogonalized(updates), strict=True):
                rows, columns = update.shape
                p.add_(
                    update.reshape(p.shape), alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5
                )

    def _momentum(self, p: nn.Parameter, gradient: Tensor, momentum: float) -> Tensor:
        buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
        buffer.lerp_(gradient, 1 - momentum)
        return gradient.lerp(buffer, momentum).reshape(p.shape[0], -1)

    def _orthogonalized(self, updates: list[Tensor]) -> list[Tensor]:
        """Orthogonalize all matrices; ranks share the work by dealing them out in turn."""
        results = [torch.zeros_like(u) for u in updates]
        by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, update in enumerate(updates):
            by_shape[tuple(update.shape)].append(i)
        for indices in by_shape.values():
            mine = indices[self.rank_index :: self.num_ranks]
            if mine:
                for i, result in zip(
                    mine, orthogonalize(torch.stack([updates[i] for i in mine])), strict=True
                ):
                    results[i] = result
        if self.num_ranks > 1:
            flat = torch.cat([r.reshape(-1) for r in results])
            dist.all_reduce(flat)
            parts = flat.split_with_sizes([r.numel() for r in results])
            results = [part.view_as(r) for part, r in zip(parts, results, strict=True)]
        return results


def build_optimizers(
    matrices: list[nn.Parameter],
    others: list[nn.Parameter],
    *,
    muon_lr: float,
    adam_lr: float,
    rank: Rank | None = None,
) -> list[torch.optim.Optimizer]:
    """Return [Muon over matrices, AdamW over the rest], each remembering its base rate."""
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, lr=muon_lr, rank=rank),
        torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers
