"""What a program is compiled for: a builder, its architecture, and every tensor that crosses the edge.

Plain frozen records that import no torch, so the command line and the API process can read them.
Knows nothing of how a backend makes code from them, and nothing of where the code is kept.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

DtypeName = Literal["float32", "bfloat16", "float16", "int64", "int8", "bool"]
Precision = Literal["float32", "bfloat16", "w8a16", "w8a8"]
Role = Literal["value", "weight", "derived", "state"]
Need = Literal["collectives", "data_dependent_shapes"]


class TensorSpec(BaseModel):
    """One tensor at the edge of a program. Its memory is always contiguous.

    `role` says who makes a constant: a `weight` comes from the checkpoint, a `derived` tensor is
    computed once from the architecture, a `state` tensor lives with the program and is zeroed by
    `reset`. Inputs and outputs are of role `value`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    shape: tuple[int, ...]
    dtype: DtypeName
    role: Role = "value"

    @property
    def num_bytes(self) -> int:
        """Size of the tensor in bytes."""
        num_elements = 1
        for size in self.shape:
            num_elements *= size
        return num_elements * BYTES_PER_ELEMENT[self.dtype]


class ProgramSpec(BaseModel):
    """Everything that compiled code depends on, and nothing else.

    Never in it: weight values, rank, prompt length, number of edited tokens within a bucket, number
    of steps, cadence, threshold, guidance. They are runtime values.

    `builder` names a function as "package.module:function"; called with `config` and `precision` it
    returns the torch module. `sources` are further modules of ours whose text shapes the code, and
    `libraries` the distributions whose version does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    component: str
    builder: str
    config: dict[str, JsonValue]
    precision: Precision = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[TensorSpec, ...] = ()
    parallel: dict[str, JsonValue] = Field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    sources: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def state(self) -> tuple[TensorSpec, ...]:
        """The constants that the program itself updates."""
        return tuple(constant for constant in self.constants if constant.role == "state")

    @property
    def bound(self) -> tuple[TensorSpec, ...]:
        """The constants that the host must bind before the first call."""
        return tuple(constant for constant in self.constants if constant.role != "state")


BYTES_PER_ELEMENT: dict[DtypeName, int] = {
    "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int8": 1, "bool": 1,
}  # fmt: skip
