"""Turns measured modes into the rows, worst cases and plots of a report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from intonaco.families.base import Family
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.calibrate import CalibrateResult
from intonaco.pipelines.compare import CompareProgress, Mode, ModeResult, compare_modes
from intonaco.quality.compare_report import CompareRow, WorstCase
from intonaco.quality.step_cache_plots import PlottedMode, Signals, save_plots
from intonaco.stepcache.fitting import pairs

NUM_CURVE_POINTS = 100


def compare_with_fewer_steps(
    family: Family,
    requests: Sequence[GenerateRequest],
    modes: Sequence[Mode],
    *,
    progress: CompareProgress | None = None,
) -> tuple[list[CompareRow], list[WorstCase]]:
    """Return a row per mode and per number of calls without caching, and each mode's worst case.

    All `requests` have the step count of `modes`.
    """
    num_steps = requests[0].num_steps
    reference = Mode(name="every step full", num_steps=num_steps)
    results = compare_modes(family, requests, reference, modes, progress=progress)
    counts = sorted({nearest_calls(result) for result in results} - {num_steps})
    fewer = compare_modes(
        family,
        requests,
        reference,
        [Mode(name=f"{count} steps", num_steps=count) for count in counts],
        progress=progress,
        originals=results[0].references if results else None,
    )
    by_count = dict(zip(counts, fewer, strict=True))
    rows = [_row(result, requests, by_count.get(nearest_calls(result))) for result in results]
    rows += [replace(_row(result, requests, None), mode="no cache") for result in fewer]
    return rows, [_worst_case(result, requests) for result in results]


def nearest_calls(result: ModeResult) -> int:
    """Return the step count that makes as many calls as `result` did in the mean."""
    return max(1, round(result.num_calls_mean))


def save_calibration_plots(folder: Path, result: CalibrateResult) -> tuple[Path, ...]:
    """Write the three plots of a calibration to `folder`; see `save_plots` for the errors."""
    modes = [
        PlottedMode(
            name=measured.mode.name,
            cached_shares=np.mean([trial.is_cached for trial in measured.trials], axis=0).tolist(),
            ceiling=measured.ceiling,
            psnr_mean_db=measured.psnr_mean_db,
            psnr_worst_db=measured.psnr_worst_db,
        )
        for measured in result.results
    ]
    fewer = {(b.ceiling, b.psnr_mean_db) for b in result.baselines if b.ceiling > 1.0}
    return save_plots(folder, _signals(result), modes, sorted(fewer))


def _signals(result: CalibrateResult) -> Signals:
    scores, changes = pairs(result.runs)
    signal = result.signal
    points: list[tuple[float, float]] = []
    if signal is not None:
        xs = np.linspace(signal.curve.low, signal.curve.high, NUM_CURVE_POINTS)
        points = [(float(x), signal.curve(float(x))) for x in xs]
    return Signals(
        scores=scores.tolist(),
        changes=changes.tolist(),
        curve=points,
        r2_held_out=signal.r2_held_out if signal else None,
    )


def _row(
    result: ModeResult, requests: Sequence[GenerateRequest], fewer: ModeResult | None
) -> CompareRow:
    gain = None if fewer is None else result.psnr_mean_db - fewer.psnr_mean_db
    return CompareRow(
        mode=result.mode.name,
        num_steps=result.mode.num_steps,
        num_calls=result.num_calls_mean,
        speedup=result.speedup,
        ceiling=result.ceiling,
        psnr_mean_db=result.psnr_mean_db,
        psnr_worst_db=result.psnr_worst_db,
        ssim_mean=result.ssim_mean,
        worst_prompt=requests[_worst_index(result)].prompt,
        psnr_gain_over_fewer_steps_db=gain,
        share_above_fewer_steps=None if fewer is None else result.share_above(fewer),
        num_invalid_scores=sum(trial.num_invalid_scores for trial in result.trials),
    )


def _worst_index(result: ModeResult) -> int:
    return min(range(len(result.trials)), key=lambda index: result.trials[index].psnr_db)


def _worst_case(result: ModeResult, requests: Sequence[GenerateRequest]) -> WorstCase:
    index = _worst_index(result)
    return WorstCase(
        mode=result.mode.name,
        num_steps=result.mode.num_steps,
        prompt=requests[index].prompt,
        psnr_db=result.trials[index].psnr_db,
        image=result.trials[index].image,
        reference=result.references[index].image,
    )
