"""What draws in the model process: a loaded model behind messages. The one part that imports torch."""

import time
from collections.abc import Callable

import torch
from PIL import Image

import intonaco
from intonaco.errors import CheckpointError, ModelProcessError
from intonaco.model import Model
from intonaco.pipelines.film import encode_film
from intonaco.pipelines.generate import GenerateResult, StepEvent
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.record import frames_digest
from intonaco.programs.compiler import CompileEvent
from intonaco.serving.framing import Frame
from intonaco.serving.messages import Draw, Drawn, ModelFacts, RawPicture, Stepped
from intonaco.serving.model_process import ReportStep, Say
from intonaco.serving.offers import Offer, make_offer
from intonaco.serving.pixels import to_image, to_raw
from intonaco.serving.profile import ServingProfile
from intonaco.serving.smoke import smoke_generation, smoke_request


class ModelEngine:
    """Holds one loaded model. Nothing of a request stays in it."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def load(self, profile: ServingProfile, say: Say) -> ModelFacts:
        """Load, verify and try the model that `profile` names.

        Raises ModelError, ArtifactError and others where it cannot be had as the profile says;
        ModelProcessError where the smoke generation is no picture or film.
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
        offer = make_offer(model, profile)
        _check_digest(model, profile)
        for choice in profile.step_caches:
            model.step_cache_request(choice)
        loaded = time.perf_counter()
        smoke = _try(model, offer, say)
        self._model = model
        has_listed_sizes = offer.has_all_listed or bool(profile.sizes)
        return ModelFacts(
            model_name=model.name,
            model_digest=model.digest,
            family=model.family.name,
            dtype=model.dtype,
            device=model.device,
            backend=model.backend,
            program_digests=tuple(digests),
            sizes=tuple(f"{width}x{height}" for width, height in offer.sizes)
            if has_listed_sizes
            else (),
            default_width=offer.sizes[0][0],
            default_height=offer.sizes[0][1],
            default_num_steps=model.defaults.num_steps,
            tokenizer_folder=str(model.checkpoint.folder / "tokenizer"),
            num_threads=torch.get_num_threads(),
            smoke_sha256=frames_digest(smoke.images),
            smoke_num_cached=smoke.step_cache.num_cached if smoke.step_cache else 0,
            load_s=round(loaded - start, 3),
            smoke_s=round(time.perf_counter() - loaded, 3),
            **offer.facts,
        )

    def draw(self, order: Draw, inputs: tuple[RawPicture, ...], report: ReportStep) -> Frame:
        """Draw `order`; see `intonaco.serving.model_process.Engine`."""
        if self._model is None:
            raise ModelProcessError("no model is loaded")
        start = time.perf_counter()
        images = tuple(to_image(picture) for picture in inputs)
        progress = _reporter(order, report)
        drawn = (_edit if order.task == "edit" else _generate)(self._model, order, images, progress)
        receipt = drawn.receipt.to_json()
        film = encode_film(drawn.frames, comment=receipt) if order.task == "film" else b""
        raw = to_raw(drawn.image)
        message = Drawn(
            draw_id=order.draw_id,
            receipt=receipt,
            warnings=drawn.warnings,
            draw_ms=round(1000 * (time.perf_counter() - start), 3),
            pictures=(raw.header,),
            film_bytes=len(film),
        )
        return Frame(message=message, pictures=(raw,), film=film)


def _try(model: Model, offer: Offer, say: Say) -> GenerateResult:
    """Run the smoke generation; on programs one per size and length, so that no request compiles.

    Returns the first one.
    """
    say("smoke generation")
    shapes = [(size, count) for size in offer.sizes for count in offer.num_frames]
    smoke = smoke_generation(model, smoke_request(*shapes[0]))
    if len(smoke.images) > 1:
        encode_film(smoke.images, comment="")
    if offer.has_all_listed:
        for size, count in shapes:
            say(f"smoke generation {size[0]}x{size[1]}" + (f", {count} frames" * (count > 1)))
            smoke_generation(model, smoke_request(size, count))
            if offer.facts["can_edit"]:
                model.editable_family().encode_picture(Image.new("RGB", size))
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
        num_frames=order.num_frames,
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


def _check_digest(model: Model, profile: ServingProfile) -> None:
    if profile.model_digest not in (None, model.digest):
        raise CheckpointError(
            f"model_digest must be {profile.model_digest}, {model.name} has {model.digest}; serve "
            "the weights that the profile names, or change it"
        )
