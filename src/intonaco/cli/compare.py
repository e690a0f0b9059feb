"""`intonaco compare`: a matrix of step cache modes and step counts over a list of prompts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.prompts import read_prompts
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from intonaco.model import Model
    from intonaco.pipelines.compare import CompareProgress
    from intonaco.quality.compare_report import CompareRow, WorstCase

DEFAULT_MODES = ("cadence:2", "online-delta")
DEFAULT_STEPS = 50

Prompts = Annotated[
    Path, typer.Option("--prompts", metavar="FILE", help="Prompts to draw, one a line.")
]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--mode",
        metavar="TEXT",
        help="A step cache, as in --step-cache. May be given more than once.",
    ),
]
StepCounts = Annotated[
    list[str] | None,
    typer.Option("--steps", metavar="N", help="Denoising steps. May be given more than once."),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Where report.json, report.html and worst.png go.",
        rich_help_panel=options.OUTPUT,
    ),
]


def compare(
    prompts: Prompts,
    mode: Modes = None,
    steps: StepCounts = None,
    size: options.Size = None,
    model: options.Model = None,
    output: Folder = Path("compare"),
    dtype: options.Precision = "float32",
    device: options.Device = "cpu",
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Measure step cache modes against every step full, and against fewer steps.

    For each step count and mode: PSNR and SSIM, mean and worst prompt, denoiser calls, speedup. Each
    mode stands beside sampling fewer steps with as many calls.

    Examples:

        intonaco compare --prompts prompts.txt
        intonaco compare --prompts prompts.txt --mode cadence:2,estimator=slope --mode cadence:3:2
        intonaco compare --prompts prompts.txt --steps 50 --steps 30 --output report --json
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.quality.compare_report import table_lines, write_report

        size_px = options.parse_size(size)
        counts = _step_counts(steps)
        lines = read_prompts(prompts)
        with terminal.progress() as progress:
            loaded = drawing.load_model(progress, folder=model, dtype=dtype, device=device)
        rows: list[CompareRow] = []
        worst: list[WorstCase] = []
        for num_steps in counts:
            with terminal.counting(f"{num_steps} steps") as show:
                found = _compare(
                    loaded,
                    lines,
                    mode or list(DEFAULT_MODES),
                    num_steps,
                    size_px,
                    lambda done, total, show=show: show(done, total, ""),
                )
            rows += found[0]
            worst += found[1]
        paths = write_report(output, rows, worst, model_name=loaded.name, num_prompts=len(lines))
        for line in table_lines(rows):
            terminal.say(line)
        terminal.say(f"wrote {', '.join(str(path) for path in paths)}")
        terminal.result({"report": str(paths[0]), "page": str(paths[1]), "worst": str(paths[2])})


def _step_counts(texts: list[str] | None) -> list[int]:
    counts = [
        options.parse_whole_number(text, option="--steps", example=DEFAULT_STEPS) or 0
        for text in texts or [str(DEFAULT_STEPS)]
    ]
    for count in counts:
        if not 1 <= count <= 1000:
            raise RequestError(f"--steps must be in 1..1000, got {count}; 50 is usual")
    return list(dict.fromkeys(counts))


def _compare(
    model: "Model",
    prompts: list[str],
    mode_texts: list[str],
    num_steps: int,
    size_px: tuple[int, int] | None,
    progress: "CompareProgress",
) -> "tuple[list[CompareRow], list[WorstCase]]":
    from intonaco.families.request import GenerateRequest
    from intonaco.pipelines.compare import Mode
    from intonaco.pipelines.matrix import compare_with_fewer_steps

    width, height = size_px or (model.defaults.width, model.defaults.height)
    requests = [
        GenerateRequest(prompt=prompt, seed=index, width=width, height=height, num_steps=num_steps)
        for index, prompt in enumerate(prompts)
    ]
    modes = [
        Mode(name=text, num_steps=num_steps, step_cache=model.step_cache_request(text))
        for text in dict.fromkeys(mode_texts)
    ]
    return compare_with_fewer_steps(model.family, requests, modes, progress=progress)
