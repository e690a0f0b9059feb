"""Block groups: how a stack of like blocks is cut into programs, and which weights each binds.

Groups of equal size share one program, which is loaded once per group with other weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from intonaco.backends.spec import DtypeName, ProgramSpec, TensorSpec
from intonaco.programs.presharding import Header

# What one slow core does, in bfloat16 without units for it; it only bounds how long one call holds
# the lock. `benchmarks/denoiser.py` compares it with the speed of the machine (`groups`).
ASSUMED_FLOPS_PER_S: dict[DtypeName, float] = {"float32": 30e9, "bfloat16": 10e9}
MAX_CALL_S = 0.25


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A block group: its program, and which tensors of the denoiser's file it binds.

    Constants of the program are named `blocks.<index>.<rest>`, those of the file
    `<stack>.<first_block + index>.<rest>`.
    """

    spec: ProgramSpec
    first_block: int
    stack: str

    def names(self) -> dict[str, str]:
        """Return the name in the denoiser's file of each constant of the program."""
        return {item.name: self._file_name(item.name) for item in self.spec.constants}

    def _file_name(self, name: str) -> str:
        _, index, rest = name.split(".", 2)
        return f"{self.stack}.{self.first_block + int(index)}.{rest}"


def blocks_per_call(operations_per_block: float, activations: DtypeName) -> int:
    """Return how many blocks one call may hold, so that it ends within `MAX_CALL_S`; at least one."""
    return max(1, int(MAX_CALL_S * ASSUMED_FLOPS_PER_S[activations] / operations_per_block))


def split_blocks(num_blocks: int, group_size: int) -> list[int]:
    """Return group sizes that add up to `num_blocks`: as few groups, then as few kinds, as can be.

    >>> split_blocks(6, 4), split_blocks(6, 6), split_blocks(7, 3)
    ([3, 3], [6], [3, 3, 1])
    """
    if num_blocks <= 0:
        return []
    num_groups = -(-num_blocks // group_size)
    if num_blocks % num_groups == 0:
        return [num_blocks // num_groups] * num_groups
    size = -(-num_blocks // num_groups)
    return [size] * (num_blocks // size) + [num_blocks % size] * (num_blocks % size > 0)


def group_constants(
    header: Header, stack: str, first_block: int, size: int
) -> tuple[TensorSpec, ...]:
    """Return the constants of blocks first_block .. first_block + size - 1, under local names."""
    constants: list[TensorSpec] = []
    for index in range(size):
        prefix = f"{stack}.{first_block + index}."
        constants += [
            item.model_copy(update={"name": f"blocks.{index}.{item.name.removeprefix(prefix)}"})
            for item in header.under(prefix)
        ]
    return tuple(constants)


def value(name: str, shape: tuple[int, ...], dtype: DtypeName) -> TensorSpec:
    """Return the spec of an input or output."""
    return TensorSpec(name=name, shape=shape, dtype=dtype)


def plain(config: Any) -> Any:
    """Return JSON values without the private keys that say where a configuration came from."""
    if isinstance(config, Mapping):
        fields = cast("Mapping[str, Any]", config)
        return {name: plain(item) for name, item in fields.items() if not name.startswith("_")}
    if isinstance(config, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", config)]
    return config
