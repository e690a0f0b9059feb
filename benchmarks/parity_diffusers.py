"""Does the host loop draw what diffusers' own pipelines draw, on the same weights?

    python -m benchmarks.parity_diffusers [--model FOLDER]

Thirteen cases of prompt, seed, size, steps and references against `Flux2KleinPipeline` in float32:
picture bytes and final latents. Two edits against `Flux2KleinInpaintPipeline`, where the definitions
agree. The step across a mask's border, hard and feathered, beside the template's own, in grey values.
Then bfloat16: against the pipeline from the same noise, and against float32, in dB.
Last line one JSON object.
"""

import argparse
import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from diffusers.pipelines.flux2.pipeline_flux2_klein_inpaint import Flux2KleinInpaintPipeline
from PIL import Image

from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.flux2_settings import max_sequence_length, out_layers
from intonaco.families.request import GenerateRequest
from intonaco.families.source import find_folder
from intonaco.pipelines.edit import DEFAULT_FEATHER_PIXELS, edit
from intonaco.pipelines.generate import generate
from intonaco.quality.metrics import border_step, psnr

CPU = torch.device("cpu")
PROMPTS = (
    "a doll with red hair, a blue shirt",
    "a doll with fair skin, short black hair, smiling, at the beach",
    "a doll with the head of the picture, in the park",
    "a doll in the clothes of the picture, at night",
    "",
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One checkpoint, loaded here and by diffusers."""

    family: Flux2Family
    pipeline: Any
    call: dict[str, object]


def load_pair(folder: Path, dtype: torch.dtype, pipeline_class: Any = Flux2KleinPipeline) -> Pair:
    checkpoint = read_checkpoint(folder)
    pipeline = pipeline_class.from_pretrained(folder, dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    return Pair(
        family=load_flux2(checkpoint, dtype=dtype, device=CPU),
        pipeline=pipeline,
        # What the pipeline must be told at each call and we read from the folder.
        call={
            "max_sequence_length": max_sequence_length(checkpoint),
            "text_encoder_out_layers": out_layers(checkpoint),
        },
    )


def requests_of(family: Flux2Family) -> list[GenerateRequest]:
    """Return the cases, around the model's own size and steps."""
    defaults = family.defaults
    first, second = picture_of(96, 96, seed=1), picture_of(150, 100, seed=2)
    plain: dict[str, Any] = {
        "width": defaults.width,
        "height": defaults.height,
        "num_steps": defaults.num_steps,
    }
    cases: list[dict[str, Any]] = [
        *({"prompt": prompt, "seed": 10 + index} for index, prompt in enumerate(PROMPTS)),
        {"prompt": PROMPTS[0], "seed": 2**40 + 5},
        {"prompt": PROMPTS[0], "seed": 1, "num_steps": 4},
        {"prompt": PROMPTS[1], "seed": 2, "width": defaults.width + 64},
        {"prompt": PROMPTS[1], "seed": 3, "width": 128, "height": 64, "num_steps": 3},
        {"prompt": PROMPTS[2], "seed": 4, "references": (first,)},
        {"prompt": PROMPTS[3], "seed": 5, "references": (second,)},
        {"prompt": PROMPTS[2], "seed": 6, "references": (first, second)},
        {"prompt": "", "seed": 7, "references": (first,), "height": defaults.height + 32},
    ]
    return [GenerateRequest(**{**plain, **case}) for case in cases]


def picture_of(width: int, height: int, *, seed: int) -> Image.Image:
    """Return flat blocks of random colours: more like a picture than noise is."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def draw_by_pipeline(
    pair: Pair, request: GenerateRequest, **more: object
) -> tuple[Image.Image, torch.Tensor]:
    """Return the pipeline's picture and its latents after the last step, packed."""
    latents: list[torch.Tensor] = []

    def keep(
        _pipeline: object, _step: int, _timestep: object, tensors: dict[str, Any]
    ) -> dict[str, Any]:
        latents.append(tensors["latents"])
        return tensors

    drawn = pair.pipeline(
        prompt=request.prompt,
        width=request.width,
        height=request.height,
        num_inference_steps=request.num_steps,
        guidance_scale=1.0,
        callback_on_step_end=keep,
        **{"generator": torch.Generator().manual_seed(request.seed), **pair.call, **more},
    )
    return drawn.images[0], latents[-1]


def compare_pictures(pair: Pair) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for request in requests_of(pair.family):
        ours = generate(pair.family, request)
        theirs, latents = draw_by_pipeline(pair, request, image=list(request.references) or None)
        rows.append(
            {
                "case": describe(request),
                "bytes_equal": ours.image.tobytes() == theirs.tobytes(),
                "latent_max_abs_diff": (ours.latents - latents).abs().max().item(),
            }
        )
        print(rows[-1])
    return rows


def compare_edits(folder: Path) -> bool:
    """Return whether edits of whole tokens, with the source shown, are diffusers' inpainting."""
    pair = load_pair(folder, torch.float32, Flux2KleinInpaintPipeline)
    defaults, equal = pair.family.defaults, True
    template = picture_of(defaults.width, defaults.height, seed=3)
    mask_HW = np.zeros((defaults.height, defaults.width), dtype=bool)
    mask_HW[16:48, 32:-16] = True
    for reference in (None, picture_of(96, 96, seed=1)):
        request = GenerateRequest(
            prompt=PROMPTS[0], seed=8, width=defaults.width, height=defaults.height,
            num_steps=defaults.num_steps, references=(reference,) if reference else (),
        )  # fmt: skip
        ours = edit(
            pair.family, request, template=template, mask_HW=mask_HW, has_source_reference=True
        )
        theirs, _ = draw_by_pipeline(
            pair,
            request,
            image=template,
            mask_image=Image.fromarray(mask_HW),
            image_reference=reference,
            strength=1.0,
        )
        assert ours.generation is not None
        equal &= ours.generation.image.tobytes() == theirs.tobytes()
    return equal


def measure_border(pair: Pair) -> dict[str, object]:
    """Return the mean step across the mask's border: the template's own, hard, and feathered."""
    request = requests_of(pair.family)[0]
    template = generate(pair.family, request).image
    mask_HW = np.zeros((request.height, request.width), dtype=bool)
    mask_HW[request.height // 3 : -request.height // 4, request.width // 4 : -20] = True
    other = replace(request, seed=request.seed + 1)
    edited = {
        name: edit(
            pair.family, other, template=template, mask_HW=mask_HW, feather_pixels=pixels
        ).image
        for name, pixels in (("hard", 0), ("feathered", DEFAULT_FEATHER_PIXELS))
    }
    return {
        f"border_step_{name}": round(border_step(picture, mask_HW), 2)
        for name, picture in {"template": template, **edited}.items()
    }


def compare_bfloat16(folder: Path, exact: Pair) -> dict[str, object]:
    """Return equality with the pipeline from the same noise, and PSNR against float32."""
    pair = load_pair(folder, torch.bfloat16)
    equal, decibels = True, list[float]()
    for request in requests_of(pair.family):
        ours = generate(pair.family, request).image
        decibels.append(psnr(ours, generate(exact.family, request).image))
        noise = pair.family.prepare(request, pair.family.encode(request)).noise
        side = pair.family.token_pixels
        rows, columns = request.height // side, request.width // side
        latents = noise.permute(0, 2, 1).reshape(1, -1, rows, columns)
        theirs, _ = draw_by_pipeline(
            pair, request, image=list(request.references) or None, latents=latents
        )
        equal &= ours.tobytes() == theirs.tobytes()
    return {
        "bfloat16_bytes_equal": equal,
        "bfloat16_over_float32_psnr_db_mean": round(statistics.mean(decibels), 2),
        "bfloat16_over_float32_psnr_db_worst": round(min(decibels), 2),
    }


def describe(request: GenerateRequest) -> str:
    return (
        f"{request.prompt[:40]!r} seed {request.seed} {request.width}x{request.height} "
        f"{request.num_steps} steps {len(request.references)} references"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="folder in diffusers' format; default: the shipped model")
    folder = find_folder(parser.parse_args().model)
    pair = load_pair(folder, torch.float32)
    rows = compare_pictures(pair)
    edits_equal = compare_edits(folder)
    border = measure_border(pair)
    lower = compare_bfloat16(folder, pair)
    print(
        json.dumps(
            {
                "bytes_equal": all(row["bytes_equal"] for row in rows),
                "latent_max_abs_diff": max(row["latent_max_abs_diff"] for row in rows),
                "cases": len(rows),
                "edit_bytes_equal": edits_equal,
                **border,
                **lower,
                "model": folder.name,
            }
        )
    )


if __name__ == "__main__":
    main()
