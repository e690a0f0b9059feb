"""What draws in the model process: a loaded model behind messages. The one part that imports torch."""

import time
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from PIL import Image

import intonaco
from intonaco.errors import CheckpointError, ModelProcessError, UnsupportedError
from intonaco.families.flux2 import MAX_PICTURE_PIXELS, MIN_SIDE_PIXELS, Flux2Family
from intonaco.families.request import GenerateRequest
from intonaco.model import Model
from intonaco.pipelines.generate import GenerateResult, StepEvent, generate
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.reading import picture_digest
from intonaco.programs.compiler import CompileEvent
from intonaco.serving.messages import Draw, Drawn, ModelFacts, RawPicture, Stepped
from intonaco.serving.model_process import ReportStep, Say
from intonaco.serving.pixels import to_image, to_raw
from intonaco.serving.profile import ServingProfile, parse_size

SMOKE_PROMPT = "a"
SMOKE_STEPS = 8
SMOKE_STEP_CACHE = "cadence:2"


class ModelEngine:
    """Holds one loaded model. Nothing of a request stays in it."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def load(self, profile: ServingProfile, say: Say) -> ModelFacts:
        """Load, verify and try the model that `profile` names.

        Raises ModelError, ArtifactError and others where it cannot be had as the profile says;
        ModelProcessError where the smoke generation is not a picture.
        """
        if profile.num_threads is not None:
            torch.set_num_threads(profile.num_threads)
        start = time.perf_counter()
        say("loading")
        digests: dict[str, None] = {}
        model = intonaco.load(
            profile.model,
            dtype=profile.dtype,
            device=profile.device,
            backend=profile.backend,
            store=profile.store,
            may_compile=profile.may_compile,
            compile_progress=_watch_programs(say, digests),
        )
        say("verifying")
        family = _picture_family(model)
        _check_digest(model, profile)
        for choice in profile.step_caches:
            model.step_cache_request(choice)
        sizes = _sizes(model, profile)
        loaded = time.perf_counter()
        smoke = _try_sizes(model, sizes, say)
        self._model = model
        return ModelFacts(
            model_name=model.name,
            model_digest=model.digest,
            family=family.name,
            dtype=model.dtype,
            device=model.device,
            backend=model.backend,
            program_digests=tuple(digests),
            sizes=tuple(f"{width}x{height}" for width, height in sizes)
            if profile.sizes or model.backend != "eager"
            else (),
            can_take_references=model.backend == "eager",
            default_width=sizes[0][0],
            default_height=sizes[0][1],
            default_num_steps=model.defaults.num_steps,
            token_pixels=family.token_pixels,
            min_side_pixels=MIN_SIDE_PIXELS,
            max_pixels=MAX_PICTURE_PIXELS,
            max_prompt_tokens=family.tokenizer.max_sequence_length,
            tokenizer_folder=str(model.checkpoint.folder / "tokenizer"),
            can_edit=True,
            is_distilled=family.config.is_distilled,
            num_threads=torch.get_num_threads(),
            smoke_sha256=picture_digest(smoke.image),
            smoke_num_cached=smoke.step_cache.num_cached if smoke.step_cache else 0,
            load_s=round(loaded - start, 3),
            smoke_s=round(time.perf_counter() - loaded, 3),
        )

    def draw(
        self, order: Draw, inputs: tuple[RawPicture, ...], report: ReportStep
    ) -> tuple[Drawn, RawPicture]:
        """Draw `order`; see `intonaco.serving.model_process.Engine`."""
        if self._model is None:
            raise ModelProcessError("no model is loaded")
        start = time.perf_counter()
        images = tuple(to_image(picture) for picture in inputs)
        progress = _reporter(order, report)
        drawn = (_edit if order.task == "edit" else _generate)(self._model, order, images, progress)
        raw = to_raw(drawn.image)
        message = Drawn(
            draw_id=order.draw_id,
            receipt=drawn.receipt.to_json(),
            warnings=drawn.warnings,
            draw_ms=round(1000 * (time.perf_counter() - start), 3),
            pictures=(raw.header,),
        )
        return message, raw


def smoke_generation(model: Model, size: tuple[int, int]) -> GenerateResult:
    """Draw one test picture of `size` with some steps cached, and check that it is one.

    Raises ModelProcessError: it is not finite, constant, of another size, or no step was cached.
    """
    request = _smoke_request(size)
    result = generate(model.family, request, step_cache=model.step_cache_request(SMOKE_STEP_CACHE))
    faults = {
        "its latents are not finite": not bool(torch.isfinite(result.latents).all()),
        "its size is not the one asked for": result.image.size != (request.width, request.height),
        "its pixels are all the same": bool(np.ptp(np.asarray(result.image)) == 0),
        "no step was cached": result.step_cache is None or result.step_cache.num_cached == 0,
    }
    found = [fault for fault, is_there in faults.items() if is_there]
    if found:
        raise ModelProcessError(f"the smoke generation failed: {'; '.join(found)}")
    return result


def _smoke_request(size: tuple[int, int]) -> GenerateRequest:
    return GenerateRequest(
        prompt=SMOKE_PROMPT, seed=0, width=size[0], height=size[1], num_steps=SMOKE_STEPS
    )


def _sizes(model: Model, profile: ServingProfile) -> list[tuple[int, int]]:
    """Return the sizes of the profile, each one that the model can draw; else the default one."""
    listed = [size for text in profile.sizes if (size := parse_size(text)) is not None]
    for size in listed:
        model.family.check(_smoke_request(size))
    return listed or [(model.defaults.width, model.defaults.height)]


def _try_sizes(model: Model, sizes: list[tuple[int, int]], say: Say) -> GenerateResult:
    """Run the smoke generation; on programs one per size, so that no request compiles.

    Returns that of the first size.
    """
    say("smoke generation")
    smoke = smoke_generation(model, sizes[0])
    if model.backend != "eager":
        family = _picture_family(model)
        for size in sizes:
            say(f"smoke generation {size[0]}x{size[1]}")
            smoke_generation(model, size)
            family.encode_picture(Image.new("RGB", size))
    return smoke


def _generate(
    model: Model,
    order: Draw,
    images: tuple[Image.Image, ...],
    progress: Callable[[StepEvent], bool],
) -> Picture:
    return model.generate(
        order.prompt,
        seed=order.seed,
        width=order.width,
        height=order.height,
        num_steps=order.num_steps,
        references=images,
        guidance_scale=order.guidance_scale,
        negative_prompt=order.negative_prompt,
        image_index=order.image_index,
        is_private=order.is_private,
        step_cache=order.step_cache,
        progress=progress,
    )


def _edit(
    model: Model,
    order: Draw,
    images: tuple[Image.Image, ...],
    progress: Callable[[StepEvent], bool],
) -> Picture:
    template, mask, *references = images
    return model.edit(
        template,
        mask,
        prompt=order.prompt,
        references=references,
        seed=order.seed,
        num_steps=order.num_steps,
        guidance_scale=order.guidance_scale,
        negative_prompt=order.negative_prompt,
        image_index=order.image_index,
        feather_pixels=order.feather_pixels,
        is_private=order.is_private,
        step_cache=order.step_cache,
        progress=progress,
    )


def _reporter(order: Draw, report: ReportStep) -> Callable[[StepEvent], bool]:
    def progress(event: StepEvent) -> bool:
        is_asked = event.preview is not None and event.index in order.preview_steps
        previews = (to_raw(event.preview()),) if is_asked and event.preview else ()
        step = Stepped(
            draw_id=order.draw_id,
            index=event.index,
            num_steps=event.num_steps,
            elapsed_s=round(event.elapsed_s, 4),
            pictures=tuple(picture.header for picture in previews),
        )
        return report(step, previews)

    return progress


def _watch_programs(say: Say, digests: dict[str, None]) -> Callable[[CompileEvent], None]:
    def show(event: CompileEvent) -> None:
        digests[event.digest] = None
        say(f"{event.phase} {event.component} {event.index + 1} of {event.num_programs}")

    return show


def _picture_family(model: Model) -> Flux2Family:
    if model.family.name != "flux2":
        raise UnsupportedError(
            f"{model.name} is a {model.family.name} model; the server draws pictures with flux2 models"
        )
    return cast("Flux2Family", model.family)


def _check_digest(model: Model, profile: ServingProfile) -> None:
    if profile.model_digest not in (None, model.digest):
        raise CheckpointError(
            f"model_digest must be {profile.model_digest}, {model.name} has {model.digest}; serve "
            "the weights that the profile names, or change it"
        )
