"""What both trainings share: ranks, gradient averaging, schedule, checkpoints, progress.

Two single-thread ranks averaging gradients over gloo run about twice as fast on two cores as one
two-thread process, so a rank is a process with one thread on a CPU; on a GPU there is one rank.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    index: int
    count: int
    device: str

    @property
    def is_first(self) -> bool:
        return self.index == 0


def launch(main: Callable[..., None], num_ranks: int, work: Path, *args: object) -> None:
    """Run `main(rank, *args)` in `num_ranks` processes that can average gradients."""
    work.mkdir(parents=True, exist_ok=True)
    meeting = work / "rendezvous"
    meeting.unlink(missing_ok=True)
    mp.spawn(  # pyright: ignore[reportPrivateImportUsage]  torch documents it here
        _enter, args=(main, num_ranks, str(meeting), args), nprocs=num_ranks
    )


def _enter(
    index: int, main: Callable[..., None], count: int, meeting: str, args: tuple[object, ...]
) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    if count > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=index, world_size=count
        )
    main(Rank(index=index, count=count, device=device), *args)
    if count > 1:
        dist.destroy_process_group()


def place(module: nn.Module, device: str) -> None:
    """Move `module` to `device`, its convolutions in the order that is fast on CPUs: channels last."""
    move: Any = module.to  # torch's types leave the memory format out
    move(device, memory_format=torch.channels_last)


def average_gradients(parameters: list[nn.Parameter], rank: Rank) -> None:
    """Average gradients over ranks in one flat all-reduce."""
    if rank.count == 1:
        return
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= rank.count
    offset = 0
    for p, g in zip(parameters, grads, strict=True):
        p.grad = flat[offset : offset + g.numel()].view_as(g)
        offset += g.numel()


def set_rate(
    optimizers: list[torch.optim.Optimizer], step: int, num_steps: int, *, decay_from: float
) -> float:
    """Warm up over 50 steps, hold, then fall linearly to 5 % from `decay_from` on; return the factor."""
    progress = step / num_steps
    factor = min(1.0, (step + 1) / 50)
    if progress > decay_from:
        factor *= 1 - 0.95 * (progress - decay_from) / (1 - decay_from)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor
    return factor


class Average:
    """Exponential moving average of a module's parameters, kept in float32."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for k, v in module.state_dict().items():
            if v.dtype.is_floating_point:
                self.shadow[k].lerp_(v, 1 - decay)
            else:
                self.shadow[k].copy_(v)


def save_atomically(state: dict[str, object], path: Path) -> None:
    temporary = path.with_suffix(".partial")
    torch.save(state, temporary)
    temporary.rename(path)


class Log:
    """Appends one JSON line per report to `path` and prints it with the time left."""

    def __init__(self, path: Path, num_steps: int, first_step: int) -> None:
        self.path, self.num_steps, self.first_step = path, num_steps, first_step
        self.started = time.monotonic()
        self.values: dict[str, list[float]] = {}

    def add(self, **values: float | Tensor) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(float(value))

    def report(self, step: int) -> None:
        elapsed = time.monotonic() - self.started
        left = elapsed / max(1, step - self.first_step) * (self.num_steps - step)
        means = {k: round(sum(v) / len(v), 5) for k, v in self.values.items()}
        line = json.dumps({"step": step, "elapsed_s": round(elapsed, 1), **means})
        with self.path.open("a") as f:
            f.write(line + "\n")
        print(f"{line}  {left / 60:.1f} min left", flush=True)
        self.values = {}
