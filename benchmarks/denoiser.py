"""How much faster is the denoiser on programs than diffusers' eager module on the same weights?

    python -m benchmarks.denoiser [--sizes shipped medium] [--parts ratios probe groups]

Two sizes: the shipped model's denoiser, and a medium one (hidden 512, 2 + 6 blocks, 1,088 tokens,
random weights). `ratios`: every contender runs once per round, in turn, so that whatever else the machine does
falls on all alike; a ratio is one of medians. Once on one thread, then on all. `probe`: the change
probe beside a call. `groups`: how long a cancel may wait, by blocks per call. Programs are kept in
the store, so a second run compiles nothing. Last line one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any, cast

import torch
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel

from benchmarks._denoiser_calls import block_operations, measure_groups, measure_probe
from intonaco.backends.registry import make_backend
from intonaco.backends.spec import Precision
from intonaco.families.flux2 import position_ids
from intonaco.families.flux2_programs import ComponentWeights, ProgramDenoiser
from intonaco.families.flux2_shapes import DenoiserShape
from intonaco.families.flux2_specs import activation_dtype
from intonaco.families.source import shipped_folder
from intonaco.programs.compiler import CompileEvent
from intonaco.programs.int8 import LAYERS, quantize_tensors
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.presharding import map_tensors, module_tensors, read_header, write_presharded
from intonaco.programs.store import ArtifactStore, default_store_folder

SHIPPED_LIKE: dict[str, Any] = {
    "in_channels": 32, "num_layers": 2, "num_single_layers": 6, "attention_head_dim": 64,
    "num_attention_heads": 4, "joint_attention_dim": 384, "timestep_guidance_channels": 256,
    "axes_dims_rope": [16, 16, 16, 16], "guidance_embeds": False,
}  # fmt: skip
MEDIUM = {**SHIPPED_LIKE, "num_attention_heads": 8, "joint_attention_dim": 1536}
SHIPPED_SHAPE = DenoiserShape(num_image_tokens=144, num_text_tokens=40)
MEDIUM_SHAPE = DenoiserShape(num_image_tokens=1024, num_text_tokens=64)
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "w8a16", "w8a8")
PARTS = ("ratios", "probe", "groups")
HOPELESS = 20
Call = Callable[[], object]


@dataclass(frozen=True)
class Bench:
    """One size: the eager module, its shape, and where its programs and weights are."""

    name: str
    transformer: Flux2Transformer2DModel
    shape: DenoiserShape
    store: ArtifactStore
    folder: Path
    repeats: int

    def denoiser(
        self, precision: Precision, group_size: int | None = None, backend: str = "inductor"
    ) -> ProgramDenoiser:
        """Return the denoiser on programs."""
        return ProgramDenoiser(
            library=ProgramLibrary(
                store=self.store, backend=make_backend(backend), progress=show_compiling
            ),
            weights=self.weights(precision),
            group_size=group_size,
        )

    def program(self, backend: str, precision: Precision) -> Call:
        """Return a call of the denoiser on programs, compiled if need be."""
        denoiser = self.denoiser(precision, backend=backend)
        inputs = self.inputs(precision)
        denoiser(inputs)
        return lambda: denoiser(inputs)

    def eager(self, precision: Precision) -> Call:
        """Return a call of diffusers' module."""
        module: Any = Flux2Transformer2DModel.from_config(self.transformer.config)
        module.eval().load_state_dict(self.transformer.state_dict())
        module.to(getattr(torch, precision)).requires_grad_(False)
        inputs = self.inputs(precision)
        return lambda: module(**inputs, return_dict=False)[0]

    def torch_compiled(self) -> Call:
        """Return a call of torch.compile's float32 module."""
        module: Any = torch.compile(self.transformer, fullgraph=True)
        inputs = self.inputs("float32")
        # Compiled as it will be called: with gradients it would be compiled anew.
        with torch.no_grad():
            module(**inputs, return_dict=False)
        return lambda: module(**inputs, return_dict=False)[0]

    def weights(self, precision: Precision) -> ComponentWeights:
        """Return the module's weights, presharded for `precision`."""
        path = self.folder / f"{self.name}-{precision}.safetensors"
        if not path.is_file():
            tensors, derived = module_tensors(self.transformer)
            dtype = getattr(torch, activation_dtype(precision))
            tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
            if precision in LAYERS:
                modules = cast(
                    "Iterable[tuple[str, torch.nn.Module]]", self.transformer.named_modules()
                )
                linear = frozenset(f"{name}.weight" for name, one in modules if is_linear(one))
                tensors = quantize_tensors(tensors, linear)
            write_presharded(path, tensors, derived)
        return ComponentWeights(
            config=dict(self.transformer.config),
            header=read_header(path),
            tensors=map_tensors(path),
            precision=precision,
        )

    def inputs(self, precision: Precision) -> dict[str, torch.Tensor]:
        """Return one step's inputs."""
        dtype = getattr(torch, activation_dtype(precision))
        generator = torch.Generator().manual_seed(0)
        config, shape = self.transformer.config, self.shape
        side = int(shape.num_image_tokens**0.5)

        def draw(length: int, width: int) -> torch.Tensor:
            return torch.randn(1, length, width, generator=generator).to(dtype)

        return {
            "hidden_states": draw(shape.num_image_tokens, config["in_channels"]),
            "timestep": torch.tensor([0.5], dtype=dtype),
            "encoder_hidden_states": draw(shape.num_text_tokens, config["joint_attention_dim"]),
            "img_ids": position_ids(rows=side, columns=side),
            "txt_ids": position_ids(text=shape.num_text_tokens),
        }


def is_linear(module: object) -> bool:
    return isinstance(module, torch.nn.Linear)


def show_compiling(event: CompileEvent) -> None:
    if event.phase != "found":
        print(
            f"  {event.phase} {event.component} {event.elapsed_s:.1f} s {event.reason}", flush=True
        )


def measure(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each call, all of them in turn in every round.

    What takes more than `HOPELESS` times the fastest when it is first called keeps that one time.
    """
    with torch.no_grad():
        first_ms = {name: elapsed_ms(call) for name, call in calls.items()}
        fastest_ms = min(first_ms.values())
        times_ms: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(repeats):
            for name, call in calls.items():
                if first_ms[name] <= HOPELESS * fastest_ms:
                    times_ms[name].append(elapsed_ms(call))
    return {name: statistics.median(times or [first_ms[name]]) for name, times in times_ms.items()}


def elapsed_ms(call: Call) -> float:
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def ratios(ms: dict[str, float], program: str) -> dict[str, float]:
    """Return the asked ratios for one backend; above 1 the program is faster."""
    found = {
        "eager_fp32_over_program_fp32": ("eager float32", f"{program} float32"),
        "eager_bf16_over_program_bf16": ("eager bfloat16", f"{program} bfloat16"),
        "eager_fp32_over_program_bf16": ("eager float32", f"{program} bfloat16"),
        "eager_fp32_over_program_w8a16": ("eager float32", f"{program} w8a16"),
        "eager_fp32_over_program_w8a8": ("eager float32", f"{program} w8a8"),
        "torch_compile_over_program": ("torch.compile float32", f"{program} float32"),
    }
    return {
        name: round(ms[above] / ms[below], 3)
        for name, (above, below) in found.items()
        if above in ms and below in ms
    }


def run_threads(bench: Bench, num_threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the ratios at one number of threads."""
    torch.set_num_threads(num_threads)
    calls: dict[str, Call] = {f"eager {name}": bench.eager(name) for name in PRECISIONS[:2]}
    calls |= {f"inductor {name}": bench.program("inductor", name) for name in PRECISIONS}
    if not options.no_torch_compile:
        calls["torch.compile float32"] = bench.torch_compiled()
    if util.find_spec("openvino") is not None:
        served: list[Precision] = [
            name for name in PRECISIONS if not make_backend("openvino").supports_precision(name)
        ]
        calls |= {f"openvino {name}": bench.program("openvino", name) for name in served}
    ms = measure(calls, bench.repeats)
    for name, value in ms.items():
        print(f"  {num_threads} thread(s)  {name:<24} {value:9.2f} ms", flush=True)
    found: dict[str, Any] = ratios(ms, "inductor")
    if "openvino float32" in ms:
        found["openvino"] = ratios(ms, "openvino")
    return {**found, "eager_fp32_ms": round(ms["eager float32"], 2)}


def run_parts(bench: Bench, parts: list[str]) -> dict[str, Any]:
    """Return the sections on single calls: `groups` and `probe`."""
    found: dict[str, Any] = {}
    if "probe" in parts:
        denoiser = bench.denoiser("float32")
        found["probe"] = measure_probe(denoiser, bench.inputs("float32"), bench.repeats)
    if "groups" in parts:
        found["groups"] = measure_groups(bench.denoiser, bench.inputs, bench.shape, bench.repeats)
    return found


def count_blocks(bench: Bench) -> int:
    config = bench.transformer.config
    return config["num_layers"] + config["num_single_layers"]


def operations(bench: Bench) -> dict[str, float]:
    """Return what one step must do: operations of linear layers and attention, bytes of weights."""
    config, length = bench.transformer.config, bench.shape.length
    model_dim = config["num_attention_heads"] * config["attention_head_dim"]
    per_block = block_operations(config, length)
    num_parameters = sum(tensor.numel() for tensor in bench.transformer.parameters())
    return {
        "gflop": round(per_block * count_blocks(bench) / 1e9, 3),
        "attention_share": round(4 * length**2 * model_dim / per_block, 3),
        "weights_mb_fp32": round(4 * num_parameters / 1e6, 1),
    }


def shipped_transformer() -> tuple[Flux2Transformer2DModel, str]:
    """Return the shipped denoiser, or one of its size where none is shipped, and which it is."""
    folder = shipped_folder() / "transformer"
    if (folder / "config.json").is_file():
        return Flux2Transformer2DModel.from_pretrained(folder, dtype=torch.float32), "shipped"
    return random_transformer(SHIPPED_LIKE), "random weights of the shipped size"


def random_transformer(config: dict[str, Any]) -> Flux2Transformer2DModel:
    torch.manual_seed(0)
    return Flux2Transformer2DModel(**config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--sizes", nargs="+", default=["shipped", "medium"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--no-torch-compile", action="store_true")
    parser.add_argument("--one-thread", action="store_true")
    options = parser.parse_args()
    store = ArtifactStore(options.store or default_store_folder())
    all_threads = torch.get_num_threads()
    result: dict[str, Any] = {"num_threads": all_threads, "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sizes:
            shape = SHIPPED_SHAPE if name == "shipped" else MEDIUM_SHAPE
            transformer, weights = (
                shipped_transformer()
                if name == "shipped"
                else (random_transformer(MEDIUM), "random")
            )
            transformer.eval().requires_grad_(False)
            bench = Bench(name, transformer, shape, store, Path(folder), options.repeats)
            print(f"{name}: {weights}, {operations(bench)}", flush=True)
            has_ratios = "ratios" in options.parts
            result[name] = run_threads(bench, 1, options) if has_ratios else {}
            if has_ratios and all_threads > 1 and not options.one_thread:
                result[name]["all_threads"] = run_threads(bench, all_threads, options)
            result[name] |= {"weights": weights, **operations(bench)}
            result[name] |= run_parts(bench, options.parts)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
