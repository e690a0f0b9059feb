"""What a template costs once, and what an edit on it costs, on the shipped model; for edit_speed."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import intonaco
from benchmarks.denoiser import measure, show_compiling
from intonaco.families.source import shipped_folder
from intonaco.model import Model
from intonaco.programs.store import ArtifactStore
from intonaco.template.build import BuildEvent, BuildRequest, build_template
from intonaco.template.catalog import open_template
from intonaco.template.loading import load_template
from intonaco.template.reconstruct import PackSource, measure_reconstruct

PROMPT = "a doll with glasses"
EDIT_PROMPT = "a doll with ginger hair"
REPEATS = 5


def measure_template(
    store: ArtifactStore, folder: Path, *, is_compile_only: bool
) -> dict[str, Any]:
    """Return build seconds by phase, GB/s of reconstruction, and whole edits dense and sparse."""
    torch.set_num_threads(1)
    on_programs = intonaco.load(
        shipped_folder(), backend="inductor", store=store.root, compile_progress=show_compiling
    )
    eager = intonaco.load(shipped_folder())
    picture = eager.generate(PROMPT, seed=3).image
    mask_HW = np.zeros((picture.height, picture.width), dtype=bool)
    # 4 x 4 tokens of 12 x 12: 11 % of the picture.
    mask_HW[64:128, 64:128] = True
    build_s, built = time_build(eager, picture, mask_HW, folder / "catalog")
    state = load_template(built)
    source = state.source
    assert isinstance(source, PackSource)
    speed = measure_reconstruct(source)
    mask = Image.fromarray(mask_HW)
    arguments: dict[str, Any] = {"prompt": EDIT_PROMPT, "seed": 0}
    calls = {
        "dense": lambda: on_programs.edit(picture, mask, **arguments),
        "template": lambda: on_programs.edit(picture, mask, template_state=state, **arguments),
    }
    for call in calls.values():
        call()
    if is_compile_only:
        return {}
    ms = measure(calls, REPEATS)
    return {
        "build_s": build_s,
        "state_bytes": state.num_bytes,
        "float16_bytes": built.manifest.sizes.float16_bytes,
        "reconstruct_gb_per_s": round(speed.gigabytes_per_s, 3),
        "reconstruct_unit_us": round(speed.unit_us, 1),
        "whole_edit_dense_ms": round(ms["dense"], 1),
        "whole_edit_template_ms": round(ms["template"], 1),
        "whole_edit_ratio": round(ms["template"] / ms["dense"], 3),
    }


def time_build(
    model: Model, picture: Image.Image, mask_HW: np.ndarray, catalog: Path
) -> tuple[dict[str, float], Any]:
    """Build a template; return the seconds of each phase and of all, and the template."""
    begins: dict[str, float] = {}

    def note(event: BuildEvent) -> None:
        begins.setdefault(event.phase, time.perf_counter())

    request = BuildRequest(
        picture=picture, mask_HW=mask_HW, prompt=PROMPT, seed=0, num_steps=model.defaults.num_steps
    )
    start = time.perf_counter()
    built = build_template(
        model.editable_family(), request, catalog, model_digest=model.digest, progress=note
    )
    end = time.perf_counter()
    # A phase reports its first step when that is done, or when it begins; the sum is exact.
    edges = [start, *list(begins.values())[1:], end]
    seconds = {
        phase: round(after - before, 2)
        for phase, (before, after) in zip(begins, pairwise(edges), strict=True)
    }
    return {**seconds, "all": round(end - start, 2)}, open_template(built.folder)
