"""What step caching saves and costs on the shipped model, beside fewer steps and beside cache-dit.

    python -m benchmarks.step_cache [--prompts 16] [--calibration-prompts 4] [--steps 50 30]
    python -m benchmarks.step_cache --peer-only

Calibrates on prompts of its own, judges on others. Each schedule is drawn once per prompt, modes
interleaved; times are ratios to the uncached loop. `--peer-only` makes the table beside cache-dit
alone. Last line: one JSON object.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import intonaco
from benchmarks._cache_dit import beside_cache_dit
from benchmarks._step_cache_settings import (
    EVALUATION_SEED,
    Chosen,
    choose_settings,
    requests_of,
    skipped_steps,
)
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.compare import Mode, ModeResult, compare_modes
from intonaco.stepcache.policies import Planned
from intonaco.stepcache.settings import StepCacheSettings, describe_settings


def judge(
    model: intonaco.Model, chosen: Chosen, num_steps: int, count: int
) -> tuple[dict[str, ModeResult], dict[str, ModeResult]]:
    """Return each mode's result, and fewer steps at each number of calls that they made."""
    requests = requests_of(model, EVALUATION_SEED, count, num_steps)
    reference = Mode(name="reference", num_steps=num_steps)
    modes = [
        Mode(name=name, num_steps=num_steps, step_cache=StepCacheRequest(settings=settings))
        for name, settings in chosen.settings.items()
    ]
    equal_calls = num_steps - len(skipped_steps(chosen.settings["cadence2"], num_steps))
    modes += [
        Mode(name=f"fewer-{calls}", num_steps=calls)
        for calls in sorted({equal_calls, chosen.fast_calls})
    ]
    generate_once(model, requests[0])
    results = {r.mode.name: r for r in compare_modes(model.family, requests, reference, modes)}
    # Modes that choose for themselves make another number of calls: fewer steps must match it.
    missing = {max(1, round(r.num_calls_mean)) for r in results.values()}
    missing -= {int(name.removeprefix("fewer-")) for name in results if name.startswith("fewer-")}
    extra = [Mode(name=f"fewer-{calls}", num_steps=calls) for calls in sorted(missing)]
    if extra:
        originals = results["cadence2"].references
        found = compare_modes(model.family, requests, reference, extra, originals=originals)
        results |= {result.mode.name: result for result in found}
    return results, {
        name: results[f"fewer-{max(1, round(results[name].num_calls_mean))}"]
        for name in chosen.settings
    }


def generate_once(model: intonaco.Model, request: GenerateRequest) -> None:
    model.generate(request.prompt, seed=request.seed, num_steps=2)


def summary(
    result: ModeResult, fewer: ModeResult, settings: StepCacheSettings | None
) -> dict[str, Any]:
    cached_ms = result.cached_step_ms
    numbers: dict[str, Any] = {
        "speedup": round(result.speedup, 3),
        "ceiling": round(result.ceiling, 3),
        "share_of_ceiling": round(result.speedup / result.ceiling, 4),
        "num_calls": round(result.num_calls_mean, 2),
        "psnr_mean": round(result.psnr_mean_db, 2),
        "psnr_worst": round(result.psnr_worst_db, 2),
        "ssim_mean": round(result.ssim_mean, 5),
        "psnr_gain_over_fewer_steps_db": round(result.psnr_mean_db - fewer.psnr_mean_db, 2),
        "share_of_prompts_above_fewer_steps": round(result.share_above(fewer), 4),
    }
    if settings is not None:
        numbers["settings"] = describe_settings(settings, result.mode.num_steps)
        if isinstance(settings.policy, Planned):
            numbers["full_steps"] = list(settings.policy.full_steps[result.mode.num_steps])
    if not math.isnan(cached_ms):
        numbers["cached_step_ms"] = round(cached_ms, 3)
    return numbers


def judge_step_count(
    model: intonaco.Model, num_steps: int, args: argparse.Namespace
) -> dict[str, Any]:
    chosen = choose_settings(model, num_steps, args.calibration_prompts)
    results, fewer = judge(model, chosen, num_steps, args.prompts)
    entry: dict[str, Any] = {
        name: summary(results[name], fewer[name], settings)
        for name, settings in chosen.settings.items()
    }
    equal = fewer["cadence2"]
    entry["fewer_steps"] = summary(equal, equal, None)
    gain = results["best"].psnr_mean_db - results["cadence2"].psnr_mean_db
    entry["best"]["psnr_gain_over_cadence2_db"] = round(gain, 2)
    entry["signal"] = chosen.signal
    print(json.dumps({str(num_steps): entry}), flush=True)
    if not args.without_cache_dit and num_steps == max(args.steps):
        entry["cache_dit"] = peer_table(model, chosen, results, num_steps, args.prompts)
    return entry


def judge_peer(model: intonaco.Model, args: argparse.Namespace) -> dict[str, Any]:
    """Return the table beside cache-dit, with no more of ours than it needs."""
    num_steps = max(args.steps)
    chosen = choose_settings(model, num_steps, args.calibration_prompts, has_fast=False)
    modes = [
        Mode(
            name=name,
            num_steps=num_steps,
            step_cache=StepCacheRequest(settings=chosen.settings[name]),
        )
        for name in ("cadence2", "best")
    ]
    requests = requests_of(model, EVALUATION_SEED, args.prompts, num_steps)
    generate_once(model, requests[0])
    reference = Mode(name="reference", num_steps=num_steps)
    found = compare_modes(model.family, requests, reference, modes, has_ssim=False)
    results = {result.mode.name: result for result in found}
    table = peer_table(model, chosen, results, num_steps, args.prompts)
    return {"cache_dit": table, "num_steps": num_steps, "num_prompts": args.prompts}


def peer_table(
    model: intonaco.Model,
    chosen: Chosen,
    results: dict[str, ModeResult],
    num_steps: int,
    count: int,
) -> dict[str, Any]:
    try:
        return beside_cache_dit(model, chosen, results, num_steps, count)
    except Exception as error:  # noqa: BLE001  a peer that fails must not lose our own figures
        return {"not_run": f"{type(error).__name__}: {error}"}


def probe_cost(num_repeats: int = 20) -> dict[str, float]:
    """Time probe and denoiser in turn at the medium size: 2 + 6 blocks of 512, 1,088 tokens."""
    from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel

    from intonaco.families.flux2 import position_ids
    from intonaco.families.flux2_modules import Denoiser, Eager
    from intonaco.stepcache.flux2_probe import Flux2Features
    from intonaco.stepcache.probe import EagerProbe

    torch.manual_seed(0)
    transformer = Flux2Transformer2DModel(
        in_channels=128, num_layers=2, num_single_layers=6, attention_head_dim=64,
        num_attention_heads=8, joint_attention_dim=768, timestep_guidance_channels=256,
        axes_dims_rope=(16, 16, 16, 16), guidance_embeds=False,
    ).eval()  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(1, 1024, 128),
        "timestep": torch.tensor([0.5]),
        "encoder_hidden_states": torch.randn(1, 64, 768),
        "img_ids": position_ids(rows=32, columns=32),
        "txt_ids": position_ids(text=64),
    }
    denoiser, probe = Eager(Denoiser(transformer)), EagerProbe(Flux2Features(transformer))
    pairs = [(timed_ms(probe, inputs), timed_ms(denoiser, inputs)) for _ in range(num_repeats)]
    probe_ms, call_ms = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {
        "probe_ms": round(probe_ms, 3),
        "call_ms": round(call_ms, 1),
        "probe_share_of_call": round(statistics.median(p / c for p, c in pairs), 5),
    }


def timed_ms(
    component: Callable[[Mapping[str, torch.Tensor]], object], inputs: Mapping[str, torch.Tensor]
) -> float:
    started = time.perf_counter()
    component(inputs)
    return 1000 * (time.perf_counter() - started)


def print_table(num_steps: int, entry: dict[str, Any], names: Sequence[str]) -> None:
    print(f"{num_steps} steps: mode, calls, speedup, PSNR mean / worst, gain over fewer steps")
    for name in names:
        if name in entry:
            n = entry[name]
            print(
                f"  {name:14} {n['num_calls']:6} {n['speedup']:6} {n['psnr_mean']:7} / "
                f"{n['psnr_worst']:6} {n['psnr_gain_over_fewer_steps_db']:+7}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", default=None, help="checkpoint folder (default: the shipped one)"
    )
    parser.add_argument("--backend", default="eager", help="eager, inductor or openvino")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--calibration-prompts", type=int, default=4)
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 30])
    parser.add_argument("--without-cache-dit", action="store_true")
    parser.add_argument("--peer-only", action="store_true", help="the table beside cache-dit alone")
    args = parser.parse_args()
    started = time.perf_counter()
    model = intonaco.load(args.model, backend=args.backend)
    if args.peer_only:
        print(json.dumps(judge_peer(model, args)))
        return
    entries = {n: judge_step_count(model, n, args) for n in args.steps}
    names = ("cadence2", "online_delta", "adaptive", "best", "fast", "fewer_steps")
    for num_steps, entry in entries.items():
        print_table(num_steps, entry, names)
    first, *others = args.steps
    result = {
        **entries[first],
        "backend": args.backend,
        "num_steps": first,
        "num_prompts": args.prompts,
        "num_calibration_prompts": args.calibration_prompts,
        **{f"at_{n}_steps": entries[n] for n in others},
        "probe": probe_cost(),
        "elapsed_s": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
