"""What step caching saves and costs on the shipped model, beside fewer steps and beside cache-dit.

    python -m benchmarks.step_cache [--prompts 16] [--calibration-prompts 4] [--steps 50 30]

Calibrates on prompts of its own, judges on others. Each schedule is drawn once per prompt, modes
interleaved; times are ratios to the uncached loop. Last line: one JSON object.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import intonaco
from benchmarks import _cache_dit
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.calibrate import (
    QUANTITIES,
    measure_candidates,
    measure_signal,
    planning_data,
    record,
)
from intonaco.pipelines.compare import MAX_PSNR_DB, Mode, ModeResult, compare_modes
from intonaco.quality.metrics import psnr
from intonaco.stepcache.candidates import make_candidates
from intonaco.stepcache.fitting import find_threshold
from intonaco.stepcache.planning import PlanningData
from intonaco.stepcache.policies import Cadence, OnlineDelta, Window
from intonaco.stepcache.settings import StepCacheSettings, describe_settings
from models.captions import caption
from models.world import doll_of

CALIBRATION_SEED = 810_000_000
EVALUATION_SEED = 820_000_000
PAPER_ESTIMATOR = "slope"
FAST_SPEEDUP = 2.4
MAX_FAST_CALLS_SHARE = 1 / FAST_SPEEDUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The settings to judge at one step count, and how the calibration came to them."""

    settings: dict[str, StepCacheSettings]
    signal: dict[str, object] | None
    fast_calls: int


def requests_of(
    model: intonaco.Model, seed: int, count: int, num_steps: int
) -> list[GenerateRequest]:
    width, height = model.defaults.width, model.defaults.height
    return [
        GenerateRequest(
            prompt=caption(doll_of(seed + index)),
            seed=index,
            width=width,
            height=height,
            num_steps=num_steps,
        )
        for index in range(count)
    ]


def paper_settings(policy: Cadence | OnlineDelta, **more: object) -> StepCacheSettings:
    """The paper's own: its estimator, and a window that scales down from its 5 and 5."""
    return StepCacheSettings(policy=policy, estimator=PAPER_ESTIMATOR, window=Window(), **more)


def choose_settings(model: intonaco.Model, num_steps: int, count: int) -> Chosen:
    """Calibrate at cadence 2's calls and at 2.4x fewer; only prompts of the calibration are drawn."""
    requests = requests_of(model, CALIBRATION_SEED, count, num_steps)
    cadence2 = paper_settings(Cadence())
    equal_calls = num_steps - len(skipped_steps(cadence2, num_steps))
    fast_calls = math.floor(num_steps * MAX_FAST_CALLS_SHARE)
    settings = {"cadence2": cadence2, "online_delta": paper_settings(OnlineDelta())}
    recordings = [record(model.family, request) for request in requests]
    runs = [recording.scored for recording in recordings]
    signal = measure_signal(runs)
    if signal is not None:
        policy = find_threshold(
            signal.curve,
            runs,
            num_skips=num_steps - equal_calls,
            window=Window(),
            max_cached_in_row=1,
        )
        settings["adaptive"] = paper_settings(policy)
    plans = [planning_data(recordings, quantity) for quantity in QUANTITIES]
    for name, calls in (("best", equal_calls), ("fast", fast_calls)):
        settings[name] = best_at(model, requests, plans, calls)
    return Chosen(
        settings=settings,
        signal=None if signal is None else signal.model_dump(mode="json", exclude={"curve"}),
        fast_calls=fast_calls,
    )


def best_at(
    model: intonaco.Model,
    requests: Sequence[GenerateRequest],
    plans: Sequence[PlanningData],
    calls: int,
) -> StepCacheSettings:
    """Return the cadence or plan with the highest mean PSNR at no more than `calls` calls."""
    num_steps = requests[0].num_steps
    every = make_candidates(num_steps=num_steps, budgets=(calls,), runs=(), curve=None, plans=plans)
    candidates = [c for c in every if c.settings.estimator != PAPER_ESTIMATOR]
    results, baselines = measure_candidates(model.family, requests, candidates)
    for tried, fewer in zip(results, baselines, strict=True):
        print(
            f"  calibration, {num_steps} steps: {tried.mode.name:44} {tried.num_calls_mean:5.1f} "
            f"calls {tried.psnr_mean_db:6.2f} dB mean {tried.psnr_worst_db:6.2f} worst; fewer "
            f"steps {fewer.psnr_mean_db:6.2f}",
            flush=True,
        )
    usable = [
        (result.psnr_mean_db, index)
        for index, result in enumerate(results)
        if result.num_calls_mean <= calls
    ]
    return candidates[max(usable)[1]].settings


def skipped_steps(settings: StepCacheSettings, num_steps: int) -> list[int]:
    """Return the steps that a cadence caches."""
    window = settings.window.resolve(num_steps)
    policy = settings.policy
    assert isinstance(policy, Cadence)
    inside = range(window.first or 0, num_steps - (window.last or 0))
    return [
        step
        for step in inside
        if (step - inside.start) % policy.period >= policy.period - policy.num_cached
    ]


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
) -> dict[str, object]:
    cached_ms = result.cached_step_ms
    numbers: dict[str, object] = {
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
    if not math.isnan(cached_ms):
        numbers["cached_step_ms"] = round(cached_ms, 3)
    return numbers


def judge_step_count(
    model: intonaco.Model, num_steps: int, args: argparse.Namespace
) -> dict[str, object]:
    chosen = choose_settings(model, num_steps, args.calibration_prompts)
    results, fewer = judge(model, chosen, num_steps, args.prompts)
    entry: dict[str, object] = {
        name: summary(results[name], fewer[name], settings)
        for name, settings in chosen.settings.items()
    }
    equal = fewer["cadence2"]
    entry["fewer_steps"] = summary(equal, equal, None)
    gain = results["best"].psnr_mean_db - results["cadence2"].psnr_mean_db
    entry["best"]["psnr_gain_over_cadence2_db"] = round(gain, 2)
    entry["signal"] = chosen.signal
    print(json.dumps({str(num_steps): entry}), flush=True)
    if not args.without_cache_dit:
        entry["cache_dit"] = beside_cache_dit(model, chosen, results, num_steps, args.prompts)
    return entry


def beside_cache_dit(
    model: intonaco.Model,
    chosen: Chosen,
    results: dict[str, ModeResult],
    num_steps: int,
    count: int,
) -> dict[str, object]:
    """Return one table: cache-dit at cadence 2's schedule, ours at equal calls and at equal time."""
    try:
        import cache_dit
    except ImportError as error:
        return {"not_run": f"pip install cache-dit==1.5.3 ({error})"}
    requests = requests_of(model, EVALUATION_SEED, count, num_steps)
    skipped = skipped_steps(chosen.settings["cadence2"], num_steps)
    full_steps = [step for step in range(num_steps) if step not in skipped]
    references = [trial.image for trial in results["cadence2"].references]
    pipeline = _cache_dit.load_pipeline(model.checkpoint.folder)
    # Wall time drifts on a shared machine: the uncached loop is timed beside the cached ones.
    timed = min(4, count)
    table: dict[str, object] = {"version": cache_dit.__version__}
    speedups = []
    for name, order in (("held", None), ("taylor_1", 1)):
        uncached = _cache_dit.draw(pipeline, model, requests[:timed])
        cached = _cache_dit.draw_cached(
            pipeline, model, requests, full_steps=full_steps, taylor_order=order
        )
        ratios = [
            a.later_steps_ms / b.later_steps_ms for a, b in zip(uncached, cached, strict=False)
        ]
        values = [
            min(MAX_PSNR_DB, psnr(c.image, r)) for c, r in zip(cached, references, strict=True)
        ]
        speedups.append(statistics.median(ratios))
        table[name] = {
            "calls": len(full_steps),
            "speedup": round(speedups[-1], 3),
            "psnr_mean": round(statistics.fmean(values), 2),
            "psnr_worst": round(min(values), 2),
        }
        if name == "held":
            table["uncached_is_ours"] = all(
                psnr(u.image, r) == math.inf for u, r in zip(uncached, references, strict=False)
            )
    table["ours_at_equal_calls"] = brief(results["best"])
    table["ours_at_equal_time"] = brief(at_equal_time(model, requests, chosen, max(speedups)))
    return table


def at_equal_time(
    model: intonaco.Model, requests: list[GenerateRequest], chosen: Chosen, speedup: float
) -> ModeResult:
    """Draw with our best settings of about that speedup: a wider window makes more calls."""
    num_steps = requests[0].num_steps
    calls = math.floor(num_steps / speedup)
    settings = replace(chosen.settings["best"], policy=Cadence(), window=Window())
    window = Window(first=3, last=max(1, 2 * calls - num_steps - 3))
    settings = replace(settings, window=window, max_cached_in_row=None)
    mode = Mode(
        name="equal time", num_steps=num_steps, step_cache=StepCacheRequest(settings=settings)
    )
    reference = Mode(name="reference", num_steps=num_steps)
    return compare_modes(model.family, requests, reference, [mode], has_ssim=False)[0]


def brief(result: ModeResult) -> dict[str, float]:
    return {
        "calls": round(result.num_calls_mean, 1),
        "speedup": round(result.speedup, 3),
        "psnr_mean": round(result.psnr_mean_db, 2),
        "psnr_worst": round(result.psnr_worst_db, 2),
    }


def probe_cost(num_repeats: int = 20) -> dict[str, float]:
    """Time probe and denoiser in turn at the medium size: 2 + 6 blocks of 512, 1,088 tokens."""
    from diffusers import Flux2Transformer2DModel

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


def timed_ms(component, inputs) -> float:
    started = time.perf_counter()
    component(inputs)
    return 1000 * (time.perf_counter() - started)


def print_table(num_steps: int, entry: dict[str, object], names: Sequence[str]) -> None:
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
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--calibration-prompts", type=int, default=4)
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 30])
    parser.add_argument("--without-cache-dit", action="store_true")
    args = parser.parse_args()
    started = time.perf_counter()
    model = intonaco.load(args.model)
    entries = {n: judge_step_count(model, n, args) for n in args.steps}
    names = ("cadence2", "online_delta", "adaptive", "best", "fast", "fewer_steps")
    for num_steps, entry in entries.items():
        print_table(num_steps, entry, names)
    first, *others = args.steps
    result = {
        **entries[first],
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
