"""What compression of template state costs whole edits of the shipped model, method by method.

    python -m benchmarks.template_quality [--templates 8] [--requests 6] [--work FOLDER]
                                          [--plot docs/pictures/template-quality.png]

Every edit is compared with the same edit on uncompressed state; that one with the dense edit. Results
of each template are kept in the work folder as JSON: a stopped run goes on where it was.
Last line: one JSON object.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import intonaco
from benchmarks._template_codecs import RATIOS, Measured, baseline_points, our_points
from benchmarks._template_edits import (
    ArrayState,
    Remembering,
    compare,
    draw,
    with_source,
)
from benchmarks._template_importance import error_shares
from benchmarks._template_report import report
from benchmarks._template_requests import Case, cases
from intonaco.families.state_runs import state_runs
from intonaco.template.baselines import uniform
from intonaco.template.build import BuildRequest, Captured, block_groups, pack
from intonaco.template.capture import TemplateState, capture_in_memory
from intonaco.template.encode import CodingSettings, encode
from intonaco.template.importance import Importance, profile
from intonaco.template.loading import load_template
from intonaco.template.sensitivity import measure_sensitivity
from intonaco.template.weights import from_attention, from_sensitivity
from intonaco.template.weights import uniform as equal_weights

SMALLEST_RATIO = 4.0


def read_states(state: TemplateState) -> np.ndarray:
    shape = state.source.shape
    rows = [
        [state.source.read(step, block) for block in range(shape.num_blocks)]
        for step in range(shape.num_steps)
    ]
    found = [[[unit[kind].float().numpy() for unit in row] for row in rows] for kind in range(2)]
    return np.asarray(found, np.float32)


def judge_template(model: intonaco.Model, case: Case, num_requests: int, work: Path) -> Any:
    """Return everything measured on one template, as plain JSON."""
    family = model.family.with_components(
        text_encoder=Remembering(model.family.text_encoder),
        encoder=Remembering(model.family.encoder),
    )
    started = time.process_time()
    state, importance, measured = measure(model, family, case)
    print(f"  measured {time.process_time() - started:.0f} s", flush=True)
    requests = case.evaluation(num_requests)
    arguments = {"picture": case.picture, "mask_HW": case.mask_HW}
    dense = draw(family, requests, **arguments, reuse=None)
    reference = draw(family, requests, **arguments, reuse=state.reuse())

    def judge(states: np.ndarray) -> list[dict[str, float]]:
        reuse = with_source(state.reuse(), ArrayState(states=states))
        pictures = draw(family, requests, **arguments, reuse=reuse)
        return [asdict(one) for one in compare(pictures, reference, case.mask_HW)]

    found: list[dict[str, Any]] = []
    for point in (*baseline_points(measured), *our_points(measured)):
        found.append(
            {
                "method": point.method,
                "key": point.key,
                "ratio": measured.fp16_bytes / point.num_bytes,
                "edits": judge(point.states),
            }
        )
        worst = statistics.mean(edit["mask_psnr_db"] for edit in found[-1]["edits"])
        print(f"  {point.method} {point.key} {worst:.1f} dB", flush=True)
    best, storage = judge_packed(case, state, importance, measured, judge, work)
    evaluated = profile(family, state, requests)
    return {
        "task": case.task,
        "percent": case.percent,
        "reuse_over_dense": [asdict(one) for one in compare(reference, dense, case.mask_HW)],
        "points": [*found, *best],
        "storage": storage,
        "importance": importance_numbers(importance, evaluated),
        "error_shares": error_shares(
            family, state, measured, requests, reference, case, num_requests=2
        ),
    }


def measure(model: intonaco.Model, family: Any, case: Case) -> tuple[TemplateState, Any, Measured]:
    state = capture_in_memory(
        family,
        case.own_request(),
        picture=case.picture,
        tokens_YX=case_tokens(family, case),
        model_digest=model.digest,
    )
    importance = profile(family, state, case.profiling())
    sensitivity = measure_sensitivity(family, state, case.profiling())
    states = read_states(state)
    _, steps, blocks, rows, _ = states.shape
    measured = Measured(
        states=states,
        attention=from_attention(importance.mean),
        quarter_attention=from_attention(importance.mean, exponent=0.25),
        full_attention=from_attention(importance.mean, exponent=1.0),
        plain=equal_weights(num_steps=steps, num_blocks=blocks, num_rows=rows),
        sensitivity=from_sensitivity(sensitivity),
        block_groups=block_groups(state_runs(family).stack_sizes),
    )
    return state, importance, measured


def case_tokens(family: Any, case: Case) -> np.ndarray:
    from intonaco.pipelines.mask import token_mask

    return token_mask(case.mask_HW, token_pixels=family.token_pixels)


def judge_packed(
    case: Case,
    state: TemplateState,
    importance: Importance,
    measured: Measured,
    judge: Any,
    work: Path,
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Judge the product's own way: packed into a catalog, read back within a budget of bytes."""
    started = time.process_time()
    settings = CodingSettings(block_groups=measured.block_groups, smallest_ratio=SMALLEST_RATIO)
    coded = encode(measured.states[0], measured.states[1], measured.sensitivity, settings)
    encode_s = time.process_time() - started
    request = BuildRequest(
        picture=case.picture,
        mask_HW=case.mask_HW,
        prompt=case.own_request().prompt,
        seed=case.seed,
        num_steps=case.own_request().num_steps,
    )
    captured = Captured(state=state, importance=importance)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        template = pack(captured, coded, request, Path(folder))
        for key, ratio in (*RATIOS.items(), ("all", SMALLEST_RATIO)):
            budget = int(measured.fp16_bytes / ratio) if key != "all" else None
            loaded = load_template(template, budget_bytes=budget)
            found.append(
                {
                    "method": "best",
                    "key": key,
                    "ratio": measured.fp16_bytes / loaded.num_bytes,
                    "edits": judge(read_states(loaded)),
                }
            )
            mean = statistics.mean(edit["mask_psnr_db"] for edit in found[-1]["edits"])
            print(f"  best {key} {mean:.1f} dB", flush=True)
        stored = template.manifest.state_bytes
    integers = [uniform.integers(measured.states, bits=b).num_bytes for b in uniform.INTEGER_BITS]
    levels = [uniform.cachegen(measured.states, one) for one in uniform.LEVELS]
    return found, {
        "fp16_bytes": measured.fp16_bytes,
        "ours_bytes": stored,
        "intq_all_widths_bytes": sum(integers),
        "cachegen_stored_levels_bytes": sum(
            one.num_bytes for one in levels[: uniform.STORED_LEVELS]
        ),
        "encode_cpu_s": encode_s,
    }


def importance_numbers(profiled: Importance, evaluated: Importance) -> dict[str, float]:
    """Return skew, overlap between profiling requests, and of their mean with evaluation's."""
    both = Importance(per_request_RSBN=np.stack([profiled.mean, evaluated.mean]).astype(np.float32))
    return {
        "top_tenth_mass": profiled.skew,
        "overlap_between_requests": profiled.overlap,
        "overlap_profiling_evaluation": both.overlap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=int, default=8)
    parser.add_argument("--requests", type=int, default=6)
    parser.add_argument("--work", type=Path, default=None, help="keeps results of each template")
    parser.add_argument("--plot", type=Path, default=None, help="PNG of bytes against quality")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work = arguments.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    model = intonaco.load()
    results: list[Any] = []
    for case in cases(arguments.templates):
        path = work / f"template-{case.index}-{arguments.requests}.json"
        print(f"template {case.index}: {case.task}, {case.percent} % masked", flush=True)
        if not path.exists():
            found = judge_template(model, case, arguments.requests, work)
            path.write_text(json.dumps(found))
        results.append(json.loads(path.read_text()))
    print(json.dumps(report(results, plot=arguments.plot)))


if __name__ == "__main__":
    main()
