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
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image

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
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.pipelines.edit import TemplateReuse
from intonaco.pipelines.mask import token_mask
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One template, prepared, with the edits that every method is compared with.

    Attributes:
        reference: the edits on uncompressed state.
    """

    case: Case
    family: Any
    state: TemplateState
    importance: Importance
    measured: Measured
    requests: list[GenerateRequest]
    reference: list[Image]

    def draw(self, reuse: TemplateReuse | None) -> list[Image]:
        return draw(
            self.family,
            self.requests,
            picture=self.case.picture,
            mask_HW=self.case.mask_HW,
            reuse=reuse,
        )

    def judge(self, method: str, key: str, states: np.ndarray, num_bytes: int) -> dict[str, Any]:
        pictures = self.draw(with_source(self.state.reuse(), ArrayState(states=states)))
        edits = compare(pictures, self.reference, self.case.mask_HW)
        mean_db = statistics.mean(edit.mask_psnr_db for edit in edits)
        print(f"  {method} {key} {mean_db:.1f} dB", flush=True)
        return {
            "method": method,
            "key": key,
            "ratio": self.measured.fp16_bytes / num_bytes,
            "edits": [asdict(edit) for edit in edits],
        }


def judge_template(model: intonaco.Model, case: Case, num_requests: int, work: Path) -> Any:
    """Return everything measured on one template, as plain JSON."""
    bench = prepare(model, case, num_requests)
    found = [
        bench.judge(point.method, point.key, point.states, point.num_bytes)
        for point in (*baseline_points(bench.measured), *our_points(bench.measured))
    ]
    best, storage = judge_packed(bench, work)
    dense = compare(bench.reference, bench.draw(None), case.mask_HW)
    evaluated = profile(bench.family, bench.state, bench.requests)
    return {
        "task": case.task,
        "percent": case.percent,
        "reuse_over_dense": [asdict(one) for one in dense],
        "points": [*found, *best],
        "storage": storage,
        "importance": importance_numbers(bench.importance, evaluated),
        "error_shares": error_shares(
            bench.family,
            bench.state,
            bench.measured,
            bench.requests,
            bench.reference,
            case,
            num_requests=2,
        ),
    }


def prepare(model: intonaco.Model, case: Case, num_requests: int) -> Bench:
    own: Any = model.family
    family = own.with_components(
        text_encoder=Remembering(own.text_encoder), encoder=Remembering(own.encoder)
    )
    started = time.process_time()
    state, importance, measured = measure(model, family, case)
    print(f"  measured {time.process_time() - started:.0f} s", flush=True)
    bench = Bench(
        case=case,
        family=family,
        state=state,
        importance=importance,
        measured=measured,
        requests=case.evaluation(num_requests),
        reference=[],
    )
    return replace(bench, reference=bench.draw(state.reuse()))


def measure(model: intonaco.Model, family: Any, case: Case) -> tuple[TemplateState, Any, Measured]:
    state = capture_in_memory(
        family,
        case.own_request(),
        picture=case.picture,
        tokens_YX=token_mask(case.mask_HW, token_pixels=family.token_pixels),
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


def judge_packed(bench: Bench, work: Path) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Judge the product's own way: packed into a catalog, read back within a budget of bytes."""
    measured, case = bench.measured, bench.case
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
    captured = Captured(state=bench.state, importance=bench.importance)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        template = pack(captured, coded, request, Path(folder))
        for key, ratio in (*RATIOS.items(), ("all", None)):
            budget = None if ratio is None else int(measured.fp16_bytes / ratio)
            loaded = load_template(template, budget_bytes=budget)
            found.append(bench.judge("best", key, read_states(loaded), loaded.num_bytes))
        stored = template.manifest.state_bytes
    return found, {**storage(measured), "ours_bytes": stored, "encode_cpu_s": encode_s}


def storage(measured: Measured) -> dict[str, float]:
    """Return what a catalog stores per template with each of the other ways."""
    widths = [uniform.integers(measured.states, bits=bits) for bits in uniform.INTEGER_BITS]
    levels = [
        uniform.cachegen(measured.states, level)
        for level in uniform.LEVELS[: uniform.STORED_LEVELS]
    ]
    return {
        "fp16_bytes": measured.fp16_bytes,
        "intq_all_widths_bytes": sum(one.num_bytes for one in widths),
        "cachegen_stored_levels_bytes": sum(one.num_bytes for one in levels),
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
