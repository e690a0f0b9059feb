"""Small modules to compile, and their specs. The worker process imports this file by name."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from intonaco.attention.joint import bounded_attention
from intonaco.backends.spec import ProgramSpec, TensorSpec
from intonaco.programs.int8 import LAYERS, quantize_linears, quantize_weight

HERE = "tests.support.program_builders"
ROWS, FEATURES, NUM_KEYS = 4, 64, 12
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "w8a16": torch.bfloat16,
    "w8a8": torch.float32,
}


class Affine(nn.Module):
    """A layer with weights, a derived buffer that is not saved, and two outputs.

    `gain` and `corner` are as small as constants get: compilers like to bake such values in.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.register_buffer("table", torch.empty(features), persistent=False)
        self.register_buffer("gain", torch.empty(()))
        self.register_buffer("corner", torch.empty(8))

    def forward(self, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.silu(self.proj(functional.layer_norm(x, x.shape[-1:]))) * gate * self.gain
        y = torch.cat([y[..., :8] + self.corner, y[..., 8:]], dim=-1)
        return y, y + self.table


class Probe(nn.Module):
    """Scores the change since the last call, and remembers its features."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.proj = nn.Linear(features, features, bias=False)
        self.register_buffer("previous", torch.empty(ROWS, features))

    def forward(self, x: Tensor) -> Tensor:
        features = self.proj(x)
        score = (features - self.previous).abs().sum()
        self.previous.copy_(features)
        return score


class Bounded(nn.Module):
    """Attends to a prefix of the keys, of a length that is an input."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form

    def forward(self, q: Tensor, k: Tensor, v: Tensor, valid_length: Tensor) -> Tensor:
        return bounded_attention(q, k, v, valid_length, form=self.form)


class Failing(nn.Module):
    """Cannot be traced: it branches on a value."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Slow(nn.Module):
    """Takes long to trace, so that a test can act while it compiles."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(100_000):
            x = x.sin()
        return x


def build_affine(*, features: int, precision: str) -> nn.Module:
    return quantize_linears(Affine(features).to(DTYPES[precision]), precision)


def build_probe(*, features: int, precision: str) -> nn.Module:
    return Probe(features).to(DTYPES[precision])


def build_bounded(*, form: str, precision: str) -> nn.Module:
    return Bounded(form)


def build_failing(*, precision: str) -> nn.Module:
    return Failing()


def build_slow(*, precision: str) -> nn.Module:
    return Slow()


def affine_spec(*, precision: str = "float32", features: int = FEATURES, **changes) -> ProgramSpec:
    dtype = str(DTYPES[precision]).removeprefix("torch.")
    weight = (
        [
            tensor("proj.weight_int8", (features, features), "int8", "weight"),
            tensor("proj.weight_scale", (features,), dtype, "weight"),
        ]
        if precision in LAYERS
        else [tensor("proj.weight", (features, features), dtype, "weight")]
    )
    fields = {
        "component": "test/affine",
        "builder": f"{HERE}:build_affine",
        "config": {"features": features},
        "precision": precision,
        "inputs": (
            tensor("x", (1, ROWS, features), dtype),
            tensor("gate", (1, 1, features), dtype),
        ),
        "outputs": (
            tensor("y", (1, ROWS, features), dtype),
            tensor("shifted", (1, ROWS, features), dtype),
        ),
        "constants": (
            *weight,
            tensor("proj.bias", (features,), dtype, "weight"),
            tensor("table", (features,), dtype, "derived"),
            tensor("gain", (), dtype, "weight"),
            tensor("corner", (8,), dtype, "weight"),
        ),
    }
    return ProgramSpec(**{**fields, **changes})


def probe_spec() -> ProgramSpec:
    return ProgramSpec(
        component="test/probe",
        builder=f"{HERE}:build_probe",
        config={"features": FEATURES},
        inputs=(tensor("x", (ROWS, FEATURES)),),
        outputs=(tensor("score", ()),),
        constants=(
            tensor("proj.weight", (FEATURES, FEATURES), "float32", "weight"),
            tensor("previous", (ROWS, FEATURES), "float32", "state"),
        ),
    )


def bounded_spec(form: str) -> ProgramSpec:
    return ProgramSpec(
        component=f"test/bounded-{form}",
        builder=f"{HERE}:build_bounded",
        config={"form": form},
        inputs=(
            *(tensor(name, (1, 2, NUM_KEYS, 16)) for name in "qkv"),
            tensor("valid_length", (), "int64"),
        ),
        outputs=(tensor("y", (1, 2, NUM_KEYS, 16)),),
        needs=("data_dependent_shapes",) if form == "slice" else (),
        sources=("intonaco.attention.joint",),
    )


def simple_spec(name: str) -> ProgramSpec:
    return ProgramSpec(
        component=f"test/{name}",
        builder=f"{HERE}:build_{name}",
        config={},
        inputs=(tensor("x", (2,)),),
        outputs=(tensor("y", (2,)),),
    )


def tensor(name: str, shape: tuple[int, ...], dtype: str = "float32", role: str = "value"):
    return TensorSpec(name=name, shape=shape, dtype=dtype, role=role)


def random_constants(spec: ProgramSpec, seed: int = 0) -> dict[str, Tensor]:
    """Return random weights for the affine and probe specs, quantized where the spec says so."""
    generator = torch.Generator().manual_seed(seed)
    features = spec.config["features"]
    dtype = DTYPES[spec.precision]
    weight = (torch.randn(features, features, generator=generator) / features**0.5).to(dtype)
    tensors = {"proj.weight": weight}
    if spec.precision in LAYERS:
        names = ("proj.weight_int8", "proj.weight_scale")
        tensors = dict(zip(names, quantize_weight(weight), strict=True))
    for name, shape in {"proj.bias": (features,), "table": (features,), "corner": (8,)}.items():
        tensors[name] = torch.randn(shape, generator=generator).to(dtype)
    tensors["gain"] = torch.tensor(0.75, dtype=dtype)
    return tensors


def random_inputs(spec: ProgramSpec, seed: int = 1) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(item.shape, generator=generator).to(getattr(torch, item.dtype))
        for item in spec.inputs
    )
