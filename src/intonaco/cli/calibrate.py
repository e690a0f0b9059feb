"""`intonaco calibrate`: find out what step caching costs on a model, and write down what is worth it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.prompts import read_prompts
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from intonaco.model import Model
    from intonaco.pipelines.calibrate import CalibrateResult, Target
    from intonaco.stepcache.calibration import Calibration

DEFAULT_STEPS = 50
DEFAULT_SPEEDUP = "1.6"
TARGET = "Target"

Prompts = Annotated[
    Path,
    typer.Option(
        "--prompts", metavar="FILE", help="Prompts to calibrate on, one a line; 16 are usual."
    ),
]
Speedup = Annotated[
    str | None,
    typer.Option(
        "--speedup", metavar="X", help="Denoising speedup to reach.", rich_help_panel=TARGET
    ),
]
Psnr = Annotated[
    str | None,
    typer.Option(
        "--psnr",
        metavar="DB",
        help="Instead of a speedup: the PSNR to keep, against every step full.",
        rich_help_panel=TARGET,
    ),
]
Share = Annotated[
    str,
    typer.Option(
        "--share", metavar="P", help="Share of prompts that keep --psnr.", rich_help_panel=TARGET
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Calibration file. Default: step-cache.json in the model's folder.",
        rich_help_panel=options.OUTPUT,
    ),
]
Plots = Annotated[
    Path | None,
    typer.Option(
        "--plots",
        metavar="FOLDER",
        help="Also draw the fit, the skips per step, and speedup against PSNR.",
        rich_help_panel=options.OUTPUT,
    ),
]


def calibrate(
    prompts: Prompts,
    speedup: Speedup = None,
    psnr: Psnr = None,
    share: Share = "0.95",
    steps: options.Steps = None,
    size: options.Size = None,
    model: options.Model = None,
    output: CalibrationFile = None,
    plots: Plots = None,
    dtype: options.Precision = "float32",
    device: options.Device = "cpu",
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Measure step caching on a model and write the settings worth offering.

    Ask for a speedup or for a quality; without either, a speedup of 1.6. Only modes that beat
    sampling fewer steps with as many denoiser calls are offered. Afterwards
    'intonaco generate ... --step-cache calibrated' uses the file.

    Examples:

        intonaco calibrate --prompts prompts.txt --speedup 1.6
        intonaco calibrate --prompts prompts.txt --psnr 30 --share 0.95 --steps 30
        intonaco calibrate --prompts prompts.txt --speedup 2.4 --plots plots --json
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        size_px = options.parse_size(size)
        num_steps = options.parse_whole_number(steps, option="--steps", example=DEFAULT_STEPS)
        target = _target(speedup, psnr, share)
        lines = read_prompts(prompts)
        with terminal.progress() as progress:
            loaded = drawing.load_model(progress, folder=model, dtype=dtype, device=device)
        path = output or loaded.checkpoint.folder / "step-cache.json"
        drawing.check_folder(path.parent)
        result = _calibrate(
            terminal, loaded, lines, target, num_steps=num_steps or DEFAULT_STEPS, size_px=size_px
        )
        calibration = _write(path, loaded, result, target, len(lines), num_steps or DEFAULT_STEPS)
        if plots is not None:
            _draw_plots(plots, result)
        _finish(terminal, path, calibration)


def _target(speedup: str | None, psnr: str | None, share: str) -> "Target":
    from intonaco.pipelines.calibrate import Target

    if speedup is not None and psnr is not None:
        raise RequestError("--speedup and --psnr exclude each other; pass one of them")
    if psnr is None:
        speedup = speedup or DEFAULT_SPEEDUP
    return Target(
        speedup=options.parse_number(speedup, option="--speedup", example=1.6),
        psnr_db=options.parse_number(psnr, option="--psnr", example=30),
        share=options.parse_number(share, option="--share", example=0.95) or 0.0,
    )


def _calibrate(
    terminal: Terminal,
    model: "Model",
    prompts: list[str],
    target: "Target",
    *,
    num_steps: int,
    size_px: tuple[int, int] | None,
) -> "CalibrateResult":
    from intonaco.families.request import GenerateRequest
    from intonaco.pipelines.calibrate import calibrate

    width, height = size_px or (model.defaults.width, model.defaults.height)
    requests = [
        GenerateRequest(prompt=prompt, seed=index, width=width, height=height, num_steps=num_steps)
        for index, prompt in enumerate(prompts)
    ]
    with terminal.counting("calibrating") as show:
        return calibrate(
            model.family,
            requests,
            target,
            progress=lambda phase, done, total: show(done, total, phase),
        )


def _write(
    path: Path,
    model: "Model",
    result: "CalibrateResult",
    target: "Target",
    num_prompts: int,
    num_steps: int,
) -> "Calibration":
    from intonaco.pipelines.picture import write_files
    from intonaco.stepcache.calibration import Calibration

    calibration = Calibration(
        model_name=model.name,
        model_digest=model.digest,
        num_prompts=num_prompts,
        num_steps=num_steps,
        signal=result.signal,
        offers=result.offers,
        chosen=result.chosen,
        requested=target.text,
        notes=result.notes,
    )
    write_files({path: calibration.to_json().encode()})
    return calibration


def _draw_plots(folder: Path, result: "CalibrateResult") -> None:
    from intonaco.pipelines.matrix import save_calibration_plots

    save_calibration_plots(folder, result)


def _finish(terminal: Terminal, path: Path, calibration: "Calibration") -> None:
    for note in calibration.notes:
        terminal.warn(note)
    signal = calibration.signal
    if signal is not None:
        terminal.say(
            f"change score: R2 {signal.r2_held_out:.2f} on held-out prompts, correlation "
            f"{signal.pearson:.2f}, which speaks for {signal.gated_mode}"
        )
    for offer in sorted(
        calibration.offers, key=lambda offer: (-offer.ceiling, -offer.psnr_mean_db)
    ):
        mark = "*" if offer.name == calibration.chosen else " "
        terminal.say(
            f"{mark} {offer.name:44} {offer.num_calls:5.1f} calls  {offer.ceiling:.2f}x  "
            f"{offer.psnr_mean_db:5.1f} dB, worst {offer.psnr_worst_db:5.1f}; fewer steps "
            f"{offer.fewer_steps_psnr_mean_db:5.1f}"
        )
    terminal.say(f"{path}: {len(calibration.offers)} offers for {calibration.requested}")
    terminal.result({"file": str(path), "calibration": calibration.model_dump(mode="json")})
