"""Uncompressed template state, in memory or in a folder: written during capture, read by edits.

A folder holds one safetensors file per step (`step-000.safetensors`, ...), each with tensors
`key.BLOCK` and `value.BLOCK` of shape (N, d). A writer keeps one step in memory,
2 x num_blocks x N x d numbers, whatever the number of steps. A reader maps the files and keeps
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from intonaco.errors import PackBoundsError, PackDamagedError, TemplateMissingError
from intonaco.families.template_state import KINDS, StateShape
from intonaco.pipelines.picture import write_files


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """State in memory: a tap while it is captured, then a source.

    Attributes:
        rows_N: int64, the image tokens whose keys and values are kept, in raster order.
    """

    shape: StateShape
    rows_N: Tensor
    _units: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(
        default_factory=dict[tuple[int, int], tuple[Tensor, Tensor]]
    )

    def write(self, step: int, block: int, key: Tensor, value: Tensor, /) -> None:
        """Keep the chosen rows of keys and values (I, d), on the host."""
        self._units[step, block] = (_rows(key, self.rows_N), _rows(value, self.rows_N))

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        """Return keys and values, each (N, d). Raises TemplateMissingError if never written."""
        try:
            return self._units[step, block]
        except KeyError:
            raise _no_unit(step, block, self.shape) from None

    def close(self) -> MemoryState:
        """Return this state, now a source."""
        return self


class StateWriter:
    """A tap that writes state to a folder, a step at a time; call `close` after the run.

    Args:
        folder: made if it is not there.
        rows_N: int64, the image tokens whose keys and values are kept, in raster order.
    """

    def __init__(self, folder: Path, *, shape: StateShape, rows_N: Tensor) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._shape = shape
        self._rows_N = rows_N
        self._step = 0
        self._tensors: dict[str, Tensor] = {}

    def write(self, step: int, block: int, key: Tensor, value: Tensor, /) -> None:
        """Keep the chosen rows of keys and values (I, d); a new step writes the one before."""
        if step != self._step:
            self._flush()
            self._step = step
        self._tensors[f"key.{block}"] = _rows(key, self._rows_N)
        self._tensors[f"value.{block}"] = _rows(value, self._rows_N)

    def close(self) -> StateFolder:
        """Write the last step and return what was written. Raises SaveError."""
        self._flush()
        return StateFolder(folder=self._folder, shape=self._shape)

    def _flush(self) -> None:
        if self._tensors:
            write_files({step_path(self._folder, self._step): save(self._tensors)})
            self._tensors = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """State in a folder that a `StateWriter` wrote."""

    folder: Path
    shape: StateShape

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        """Return keys and values, each (N, d).

        Raises TemplateMissingError where there is no such unit, PackDamagedError where the file is
        none or holds other shapes.
        """
        path = step_path(self.folder, step)
        untyped_open: Any = safe_open
        if not path.is_file() or not 0 <= block < self.shape.num_blocks:
            raise _no_unit(step, block, self.shape)
        try:
            with untyped_open(path, framework="pt") as file:
                units: list[Tensor] = [file.get_tensor(f"{kind}.{block}") for kind in KINDS]
        except SafetensorError as error:
            raise PackDamagedError(
                f"{path} cannot be read ({str(error)[:120]}); capture the template again"
            ) from None
        for unit in units:
            if tuple(unit.shape) != (self.shape.num_rows, self.shape.width):
                raise PackBoundsError(
                    f"{path} holds {tuple(unit.shape)} for block {block}, the template has "
                    f"({self.shape.num_rows}, {self.shape.width}); capture the template again"
                )
        key, value = units
        return key, value


def step_path(folder: Path, step: int) -> Path:
    """Return the file that holds the units of `step`."""
    return folder / f"step-{step:03d}.safetensors"


def _rows(tokens_IM: Tensor, rows_N: Tensor) -> Tensor:
    # Indexing copies, so the run may reuse its memory.
    return tokens_IM.detach()[rows_N.to(tokens_IM.device)].to("cpu").contiguous()


def _no_unit(step: int, block: int, shape: StateShape) -> TemplateMissingError:
    return TemplateMissingError(
        f"template state has no unit (step {step}, block {block}), it has steps 0.."
        f"{shape.num_steps - 1} and blocks 0..{shape.num_blocks - 1}; capture it for this model and "
        "number of steps"
    )


def writer_bytes(shape: StateShape, dtype: torch.dtype) -> int:
    """Return the bytes that a writer keeps in memory: the units of one step."""
    return shape.num_values // shape.num_steps * dtype.itemsize
