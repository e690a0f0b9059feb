"""Writes the receipt of a run: what was asked, what drew it, and on what machine."""

import hashlib
import platform
from importlib.metadata import version

import torch
from PIL.Image import Image

from intonaco.families.base import Family
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.generate import GenerateResult
from intonaco.pipelines.reading import picture_digest
from intonaco.pipelines.receipt import (
    EditRecord,
    Environment,
    Receipt,
    StepCacheRecord,
    StepWord,
)
from intonaco.version import __version__

RECORDED_PACKAGES = ("torch", "diffusers", "transformers", "numpy", "pillow")


def make_receipt(
    family: Family,
    request: GenerateRequest,
    result: GenerateResult | None,
    images: tuple[Image, ...],
    *,
    model_name: str,
    model_digest: str,
    warnings: tuple[str, ...],
    is_private: bool,
    edit_record: EditRecord | None = None,
) -> Receipt:
    """Return the receipt of `images`; `result` is None where nothing had to be drawn."""
    return Receipt(
        kind="generate" if edit_record is None else "edit",
        model_name=model_name,
        model_digest=model_digest,
        family=family.name,
        dtype=family.precision,
        device=str(family.device),
        backend=family.backend,
        is_private=is_private,
        prompt=None if is_private else request.prompt,
        negative_prompt=None if is_private else request.negative_prompt,
        guidance_scale=request.guidance_scale,
        seed=request.seed,
        image_index=request.image_index,
        width=request.width,
        height=request.height,
        num_steps=request.num_steps,
        num_frames=request.num_frames,
        sigmas=result.sigmas if result else (),
        step_ms=tuple(round(ms, 3) for ms in result.step_ms) if result else (),
        references_sha256=tuple(picture_digest(one) for one in request.references),
        edit=edit_record,
        step_cache=_step_cache_record(result),
        picture_sha256=frames_digest(images),
        environment=this_environment(),
        # Warnings quote words of the prompt.
        warnings=tuple("withheld: private" for _ in warnings) if is_private else warnings,
    )


def _step_cache_record(result: GenerateResult | None) -> StepCacheRecord | None:
    report = result.step_cache if result else None
    if report is None:
        return None
    words: tuple[StepWord, ...] = tuple(record.kind for record in report.records)
    scores = (record.score for record in report.records)
    return StepCacheRecord(
        settings=report.text,
        calibration=report.settings.calibration,
        steps=words,
        scores=tuple(None if score is None else round(score, 6) for score in scores),
        num_calls=report.num_calls,
        num_cached=report.num_cached,
        num_invalid_scores=report.num_invalid_scores,
    )


def frames_digest(images: tuple[Image, ...]) -> str:
    """Return the digest of a picture, or one over the digests of a film's frames."""
    if len(images) == 1:
        return picture_digest(images[0])
    return hashlib.sha256("".join(picture_digest(one) for one in images).encode()).hexdigest()


def this_environment() -> Environment:
    """Return what of this process the bytes of a picture may depend on."""
    return Environment(
        versions={
            "intonaco": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in RECORDED_PACKAGES},
        },
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        num_threads=torch.get_num_threads(),
    )


def differences(recorded: Receipt, drawn: Receipt) -> str:
    """Return what differs between two runs of one request, by field: "torch 2.13.0 -> 2.14.0"."""
    before, after = recorded.environment, drawn.environment
    pairs = {
        **{name: (value, after.versions.get(name)) for name, value in before.versions.items()},
        "cpu_capability": (before.cpu_capability, after.cpu_capability),
        "num_threads": (before.num_threads, after.num_threads),
    }
    found = [f"{name} {old} -> {new}" for name, (old, new) in pairs.items() if old != new]
    is_on_template = recorded.edit is not None and recorded.edit.template is not None
    # Which part of it a stream brought in time is not recorded; an edit of a copy has no such trouble.
    streamed = "a template's state that streamed in, " if is_on_template else ""
    return (
        ", ".join(found)
        or f"nothing that a receipt records ({streamed}another processor, or altered)"
    )
