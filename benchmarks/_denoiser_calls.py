"""Parts of `benchmarks/denoiser.py`: how long single calls are, and what the probe costs beside them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import torch

from intonaco.backends.spec import Precision
from intonaco.families.flux2_denoiser_specs import default_group_size
from intonaco.families.flux2_programs import ProgramDenoiser
from intonaco.families.flux2_shapes import DenoiserShape
from intonaco.pipelines.probes import make_change_probe
from intonaco.programs.groups import ASSUMED_FLOPS_PER_S

MEASURED_PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
# FLUX.2 klein 4B: a block at 1024 x 1024 pixels with 512 text tokens.
LARGE_CONFIG = {"num_attention_heads": 24, "attention_head_dim": 128, "mlp_ratio": 3.0}
LARGE_LENGTH = 4096 + 512


@dataclass(frozen=True)
class ProbedFamily:
    """As much of a family as a probe needs."""

    name: str
    denoiser: ProgramDenoiser


def block_operations(config: Mapping[str, Any], length: int) -> float:
    """Return operations of one block: linear layers and attention, two per multiplication."""
    model_dim = config["num_attention_heads"] * config["attention_head_dim"]
    linear = model_dim**2 * (4 + 3 * config["mlp_ratio"])
    return 2 * length * (linear + 2 * length * model_dim)


def gaps_ms(denoiser: ProgramDenoiser, inputs: Mapping[str, torch.Tensor], repeats: int) -> float:
    """Return the longest time between two moments at which a generation can be cancelled.

    The median over calls of the denoiser of the longest gap within each: between two block groups,
    or from the last of them to the end.
    """
    marks: list[float] = []
    library = replace(denoiser.library, between_calls=lambda: marks.append(time.perf_counter()))
    watched = replace(denoiser, library=library)
    longest: list[float] = []
    for _ in range(repeats):
        marks[:] = [time.perf_counter()]
        watched(inputs)
        marks.append(time.perf_counter())
        longest.append(max(b - a for a, b in pairwise(marks)))
    return 1000 * statistics.median(longest)


def measure_groups(
    denoiser_of: Callable[[Precision, int | None], ProgramDenoiser],
    inputs_of: Callable[[Precision], dict[str, torch.Tensor]],
    shape: DenoiserShape,
    repeats: int,
) -> dict[str, Any]:
    """Return, at one thread, what one block per call costs, and how the longest call compares with
    the model that chooses the size of groups: operations over an assumed speed."""
    torch.set_num_threads(1)
    config = denoiser_of("float32", None).weights.config
    stacks = (config["num_layers"], config["num_single_layers"])
    sizes = {"one_block": 1, "one_group_per_kind": max(stacks)}
    operations = block_operations(config, shape.length)
    found: dict[str, Any] = {
        "gflop_per_block": round(operations / 1e9, 3),
    }
    for precision in MEASURED_PRECISIONS:
        denoisers = {name: denoiser_of(precision, size) for name, size in sizes.items()}
        inputs = inputs_of(precision)
        for denoiser in denoisers.values():
            denoiser(inputs)
        step_ms = _interleaved_ms({n: _call(d, inputs) for n, d in denoisers.items()}, repeats)
        gaps = {name: gaps_ms(one, inputs, repeats) for name, one in denoisers.items()}
        block_s = gaps["one_block"] / 1000
        assumed = ASSUMED_FLOPS_PER_S[precision]
        found[precision] = {
            "blocks_per_call": default_group_size(config, shape, precision),
            "overhead_of_one_block_per_call": round(
                step_ms["one_block"] / step_ms["one_group_per_kind"] - 1, 4
            ),
            "longest_gap_ms_one_block": round(gaps["one_block"], 1),
            "longest_gap_ms_one_group_per_kind": round(gaps["one_group_per_kind"], 1),
            "predicted_ms_one_block": round(1000 * operations / assumed, 1),
            "gflop_per_s": round(operations / 1e9 / block_s, 1),
            "assumed_gflop_per_s": assumed / 1e9,
            "assumption_is_safe": operations / block_s >= assumed,
            # Not run: too large for this machine. What the model says, at the speed seen here.
            "predicted_s_per_block_at_hidden_3072": round(
                block_operations(LARGE_CONFIG, LARGE_LENGTH) / (operations / block_s), 2
            ),
        }
    return found


def measure_probe(
    denoiser: ProgramDenoiser, inputs: Mapping[str, torch.Tensor], repeats: int
) -> dict[str, float]:
    """Return the probe program's time beside the denoiser's, in turn, at one thread."""
    torch.set_num_threads(1)
    family: Any = ProbedFamily("flux2", denoiser)
    probe = make_change_probe(family)
    assert probe is not None
    for call in (probe, denoiser):
        call(inputs)
    ms = _interleaved_ms({"probe": _call(probe, inputs), "call": _call(denoiser, inputs)}, repeats)
    return {
        "probe_ms": round(ms["probe"], 3),
        "call_ms": round(ms["call"], 2),
        "probe_share_of_call": round(ms["probe"] / ms["call"], 5),
    }


def _call(component: Any, inputs: Mapping[str, torch.Tensor]) -> Callable[[], object]:
    return lambda: component(inputs)


def _interleaved_ms(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}
