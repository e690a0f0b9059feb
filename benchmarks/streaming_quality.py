"""What a prefix of a template is worth, from mild compression down to almost nothing, for simulation.

    python -m benchmarks.streaming_quality [--templates 4] [--requests 3] [--output FILE]

Builds templates of drawn dolls on the shipped model, edits each within growing budgets and compares
with the edit on the uncompressed state, over the mask. Writes the curve and how its bytes divide into
basis and coefficient files; `benchmarks/streaming.py` reads it. Last line: one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import intonaco
from intonaco.families.state_runs import state_runs
from intonaco.model import Model
from intonaco.quality.metrics import psnr
from intonaco.template.build import BuildRequest, block_groups, capture, code, pack
from intonaco.template.capture import TemplateState
from intonaco.template.catalog import Template, open_template
from intonaco.template.loading import load_template, plan_prefixes
from models.captions import caption
from models.demo_assets import mask_picture
from models.figure import draw_doll
from models.world import CLOTHES, Doll, doll_of, wear

RATIOS = (5, 15, 50, 150, 200, 300, 400)
TEMPLATE_SEED = 830_000_000
HIGHEST_DB = 90.0
OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "data" / "streaming_quality.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One template with its uncompressed state, its doll and its mask."""

    doll: Doll
    picture: Image.Image
    mask: Image.Image
    exact: TemplateState
    packed: Template


def prepare(model: Model, seed: int, catalog: Path, *, num_profiling: int = 5) -> Prepared:
    doll = doll_of(seed)
    picture, mask = draw_doll(doll), mask_picture(doll.place, 64, 176)
    family = model.editable_family()
    profiling = [
        caption(wear(doll, doll_of(seed + 500 + k), CLOTHES)) for k in range(min(3, num_profiling))
    ]
    request = BuildRequest(
        picture=picture,
        mask_HW=np.asarray(mask) > 127,
        prompt=caption(doll),
        seed=seed % 1000,
        num_steps=model.defaults.num_steps,
        profiling_prompts=profiling,
        num_profiling=num_profiling,
    )
    captured = capture(family, request, model_digest=model.digest)
    coded = code(captured, block_groups=block_groups(state_runs(family).stack_sizes))
    packed = open_template(pack(captured, coded, request, catalog).folder)
    return Prepared(doll=doll, picture=picture, mask=mask, exact=captured.state, packed=packed)


def edit(model: Model, one: Prepared, state: TemplateState, request_seed: int) -> Image.Image:
    doll = wear(one.doll, doll_of(request_seed), CLOTHES)
    return model.edit(
        one.picture, one.mask, prompt=caption(doll), seed=7, template_state=state
    ).image


def judge(model: Model, one: Prepared, seeds: list[int]) -> dict[int, list[float]]:
    """Return PSNR over the mask against the uncompressed state, per ratio."""
    mask_HW = np.asarray(one.mask) > 127
    references = [edit(model, one, one.exact, seed) for seed in seeds]
    found: dict[int, list[float]] = {}
    for ratio in RATIOS:
        budget = one.packed.manifest.sizes.float16_bytes // ratio
        if budget < floor_bytes(one.packed):
            continue
        state = load_template(one.packed, budget_bytes=budget)
        found[ratio] = [
            min(HIGHEST_DB, psnr(edit(model, one, state, seed), reference, mask_HW=mask_HW))
            for seed, reference in zip(seeds, references, strict=True)
        ]
    return found


def judge_template(model: Model, index: int, num_requests: int) -> dict[str, object]:
    """Return everything measured on one template, as plain JSON."""
    seed = TEMPLATE_SEED + 1000 * index
    with tempfile.TemporaryDirectory() as folder:
        one = prepare(model, seed, Path(folder) / "catalog")
        found = judge(model, one, [seed + 700 + k for k in range(num_requests)])
        return {
            "psnr_db": found,
            "basis_share": {ratio: basis_share(one.packed, ratio) for ratio in found},
            "floor_ratio": one.packed.manifest.sizes.float16_bytes / floor_bytes(one.packed),
        }


def floor_bytes(template: Template) -> int:
    manifest = template.manifest
    rows = (manifest.bases, *manifest.coefficients)
    return sum(record.floor_bytes for row in rows for record in row)


def basis_share(template: Template, ratio: int) -> float:
    """Return which part of the bytes at this ratio lies in basis files."""
    budget = template.manifest.sizes.float16_bytes // ratio
    prefixes = plan_prefixes(template.manifest, budget_bytes=budget)
    names = {record.name for record in template.manifest.bases}
    of_bases = sum(length for record, _, length in prefixes if record.name in names)
    return of_bases / sum(length for _, _, length in prefixes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=int, default=4)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keeps results of each template")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    started = time.perf_counter()
    model = intonaco.load()
    every: dict[int, list[float]] = {}
    shares: dict[int, list[float]] = {}
    floors: list[float] = []
    work = args.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    for index in range(args.templates):
        path = work / f"template-{index}-{args.requests}.json"
        if not path.exists():
            path.write_text(json.dumps(judge_template(model, index, args.requests)))
        found = json.loads(path.read_text())
        for key, values in found["psnr_db"].items():
            every.setdefault(int(key), []).extend(values)
            shares.setdefault(int(key), []).append(found["basis_share"][key])
        floors.append(found["floor_ratio"])
        print(f"template {index}: " + summary(every), flush=True)
    result = {
        "mask_psnr_db": {f"{r}x": round(statistics.mean(v), 2) for r, v in every.items()},
        "mask_psnr_worst_db": {f"{r}x": round(min(v), 2) for r, v in every.items()},
        "basis_share": {f"{r}x": round(statistics.mean(v), 3) for r, v in shares.items()},
        "floor_ratio": round(statistics.mean(floors)),
        "num_templates": args.templates,
        "num_requests": args.requests,
        "script": "python -m benchmarks.streaming_quality",
        "elapsed_s": round(time.perf_counter() - started, 1),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def summary(every: dict[int, list[float]]) -> str:
    return "  ".join(f"{ratio}x {statistics.mean(v):.1f}" for ratio, v in every.items())


if __name__ == "__main__":
    main()
