"""The front door: load a model, draw, edit.

Resolves defaults and files into frozen requests, calls the pipelines, writes receipts.
"""

import secrets
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from intonaco.backends.registry import make_backend
from intonaco.backends.spec import Precision
from intonaco.errors import RequestError, UnsupportedError
from intonaco.families.base import Defaults, EditableFamily, Family
from intonaco.families.checkpoint import Checkpoint, read_checkpoint, revision_digest
from intonaco.families.registry import load_family, load_family_on_programs
from intonaco.families.request import GenerateRequest, check_integer
from intonaco.families.source import find_folder
from intonaco.pipelines.caching import (
    StepCacheChoice,
    StepCacheRequest,
    resolve_step_cache,
)
from intonaco.pipelines.edit import DEFAULT_FEATHER_PIXELS, MAX_FEATHER_PIXELS, edit
from intonaco.pipelines.generate import GenerateResult, ProgressCallback, generate
from intonaco.pipelines.interrupting import IsCancelled
from intonaco.pipelines.mask import read_mask
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.reading import open_picture, picture_digest
from intonaco.pipelines.receipt import EditRecord, TemplateRecord
from intonaco.pipelines.record import make_receipt
from intonaco.programs.compiler import CompileProgress
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore, default_store_folder
from intonaco.stepcache.calibration import FILE_NAME as CALIBRATION_FILE_NAME
from intonaco.template.capture import TemplateState

PictureSource = Image.Image | str | Path
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# torch's host generator reads 32 bits of a seed, so longer drawn ones would add nothing.
DRAWN_SEED_BITS = 32


class Model:
    """A loaded model. Holds no state of any request; `load` makes one."""

    def __init__(self, family: Family, checkpoint: Checkpoint) -> None:
        self.family = family
        self.checkpoint = checkpoint

    def __repr__(self) -> str:
        return f"Model({self.name!r}, dtype={self.dtype!r}, device={self.device!r})"

    @property
    def name(self) -> str:
        return self.checkpoint.name

    @property
    def dtype(self) -> str:
        """Precision: "float32" or "bfloat16"; on programs also "w8a16" or "w8a8"."""
        return self.family.precision

    @property
    def device(self) -> str:
        return str(self.family.device)

    @property
    def backend(self) -> str:
        """What runs the model: "eager", or the backend of its programs."""
        return self.family.backend

    @property
    def defaults(self) -> Defaults:
        """Width, height and steps of a request that leaves them out."""
        return self.family.defaults

    @cached_property
    def digest(self) -> str:
        """sha256 over the checkpoint's files; read once, on first use."""
        return revision_digest(self.checkpoint)

    def generate(
        self,
        prompt: str,
        *,
        seed: int | None = None,
        width: int | None = None,
        height: int | None = None,
        num_steps: int | None = None,
        references: Sequence[PictureSource] = (),
        guidance_scale: float | None = None,
        negative_prompt: str | None = None,
        image_index: int = 0,
        num_frames: int | None = None,
        is_private: bool = False,
        step_cache: StepCacheChoice = None,
        progress: ProgressCallback | None = None,
        is_cancelled: IsCancelled | None = None,
    ) -> Picture:
        """Draw `prompt`.

        Args:
            seed: 0 .. 2**63 - 1; None draws one, which stands in the receipt.
            width, height: pixels; None = the model's default. So for num_steps and num_frames.
            references: pictures (or their paths) given to the model beside the prompt.
            guidance_scale, negative_prompt: for models that are not distilled.
            image_index: which picture of the series under `seed`.
            is_private: leave the prompt out of the receipt.
            step_cache: reuse denoiser outputs at some steps: "cadence:2", "online-delta",
                "calibrated", settings; None = off. See `docs/step-cache.md`.
            progress: called after each step; return False to cancel.
            is_cancelled: asked before each step, and on programs between the calls within one.

        Raises:
            InputError: a setting breaks a rule; nothing was drawn.
            GenerationCancelled: `progress` or `is_cancelled` said so.
        """
        defaults = self.defaults
        request = GenerateRequest(
            prompt=prompt,
            seed=_seed(seed),
            width=defaults.width if width is None else width,
            height=defaults.height if height is None else height,
            num_steps=defaults.num_steps if num_steps is None else num_steps,
            num_frames=defaults.num_frames if num_frames is None else num_frames,
            image_index=image_index,
            guidance_scale=guidance_scale,
            negative_prompt=negative_prompt,
            references=open_references(references),
        )
        result = generate(
            self.family,
            request,
            progress=progress,
            step_cache=self.step_cache_request(step_cache),
            is_cancelled=is_cancelled,
        )
        return self._picture(
            request, result, result.images, warnings=result.warnings, is_private=is_private
        )

    def edit(
        self,
        template: PictureSource,
        mask: PictureSource | NDArray[np.bool_],
        *,
        prompt: str | None = None,
        references: Sequence[PictureSource] = (),
        seed: int | None = None,
        num_steps: int | None = None,
        guidance_scale: float | None = None,
        negative_prompt: str | None = None,
        image_index: int = 0,
        feather_pixels: int = DEFAULT_FEATHER_PIXELS,
        has_source_reference: bool = False,
        is_private: bool = False,
        step_cache: StepCacheChoice = None,
        template_state: TemplateState | None = None,
        progress: ProgressCallback | None = None,
        is_cancelled: IsCancelled | None = None,
    ) -> Picture:
        """Redraw `template` inside `mask`; every pixel outside keeps its exact value.

        Args:
            template: the picture to edit, of a size the model can draw.
            mask: a picture of the same size: alpha 0 = edit, or, without alpha, white = edit.
            prompt: what the whole picture shows after the edit; may be left out with references.
            feather_pixels: width of the blend inside the mask, 0 .. 64.
            has_source_reference: also show the model the whole template.
            template_state: what was prepared of this very template; the mask lies inside its own.
                Only what may change is then computed, and seed and num_steps left out are those of
                its capture. Raises TemplateIdentityError where it is another's.

        Other arguments and errors are those of `generate`.
        """
        if prompt is None and not references:
            raise RequestError("edit needs prompt or references, got neither; pass one of them")
        feather_pixels = check_integer(
            "feather_pixels", feather_pixels, low=0, high=MAX_FEATHER_PIXELS
        )
        source = open_picture(template, "template").convert("RGB")
        mask_HW = open_mask(mask, size=source.size)
        if template_state is not None:
            captured = template_state.identity
            seed = captured.seed if seed is None else seed
            num_steps = captured.num_steps if num_steps is None else num_steps
        request = GenerateRequest(
            prompt=prompt or "",
            seed=_seed(seed),
            width=source.width,
            height=source.height,
            num_steps=self.defaults.num_steps if num_steps is None else num_steps,
            image_index=image_index,
            guidance_scale=guidance_scale,
            negative_prompt=negative_prompt,
            references=open_references(references),
        )
        family = self.editable_family()
        if template_state is not None:
            template_state.check(family, request, source, self.digest)
        result = edit(
            family,
            request,
            template=source,
            mask_HW=mask_HW,
            feather_pixels=feather_pixels,
            has_source_reference=has_source_reference,
            progress=progress,
            step_cache=self.step_cache_request(step_cache),
            is_cancelled=is_cancelled,
            reuse=None if template_state is None else template_state.reuse(),
        )
        record = EditRecord(
            template_sha256=picture_digest(source),
            mask_sha256=picture_digest(Image.fromarray(mask_HW)),
            feather_pixels=feather_pixels,
            has_source_reference=has_source_reference,
            template=None if template_state is None else _template_record(template_state),
        )
        return self._picture(
            request,
            result.generation,
            (result.image,),
            warnings=result.warnings,
            is_private=is_private,
            edit_record=record,
        )

    def _picture(
        self,
        request: GenerateRequest,
        result: GenerateResult | None,
        images: tuple[Image.Image, ...],
        *,
        warnings: tuple[str, ...],
        is_private: bool,
        edit_record: EditRecord | None = None,
    ) -> Picture:
        receipt = make_receipt(
            self.family,
            request,
            result,
            images,
            model_name=self.name,
            model_digest=self.digest,
            warnings=warnings,
            is_private=is_private,
            edit_record=edit_record,
        )
        return Picture(image=images[0], receipt=receipt, warnings=warnings, frames=images)

    def step_cache_request(self, choice: StepCacheChoice) -> StepCacheRequest | None:
        """Return what `choice` means for this model, as `generate` reads it.

        Raises RequestError for a text that means nothing, CalibrationError for an unusable file.
        """
        return resolve_step_cache(
            choice,
            calibration_file=self.checkpoint.folder / CALIBRATION_FILE_NAME,
            model_digest=lambda: self.digest,
        )

    def editable_family(self) -> EditableFamily:
        """Return the family as one whose pictures can be edited. Raises UnsupportedError."""
        if not hasattr(self.family, "encode_picture"):
            raise UnsupportedError(f"{self.name} ({self.family.name}) cannot edit; use generate")
        return cast("EditableFamily", self.family)


def load(
    source: str | Path | None = None,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    backend: str = "eager",
    store: str | Path | None = None,
    may_compile: bool = True,
    compile_progress: CompileProgress | None = None,
) -> Model:
    """Load a model.

    Args:
        source: a folder in diffusers' format, a hub id (owner/name), or None for the shipped model.
        dtype: "float32" or "bfloat16"; on compiled programs also "w8a16" (8-bit weights) and
            "w8a8" (8-bit products).
        device: a torch device, such as "cpu" or "cuda".
        backend: "eager" runs modules as they are; "inductor" and "openvino" run programs that are
            compiled once and kept in `store`.
        store: the folder of programs; None = $INTONACO_STORE, or a folder of the user's cache.
        may_compile: if False, a program that the store lacks is an error.
        compile_progress: called with each `CompileEvent`.

    Raises:
        ModelError: it cannot be found or used; the message says what is missing.
        BackendError, ArtifactError: programs cannot be compiled or found here, and why.
    """
    precisions = ("float32", "bfloat16", *(("w8a16", "w8a8") if backend != "eager" else ()))
    if dtype not in precisions:
        raise UnsupportedError(
            f"dtype must be one of {', '.join(precisions)} with backend {backend!r}, got {dtype!r}"
        )
    torch_device = _device(device)
    checkpoint = read_checkpoint(find_folder(source))
    if backend == "eager":
        return Model(load_family(checkpoint, dtype=DTYPES[dtype], device=torch_device), checkpoint)
    library = ProgramLibrary(
        store=ArtifactStore(default_store_folder() if store is None else Path(store)),
        backend=make_backend(backend),
        may_compile=may_compile,
        progress=compile_progress,
    )
    family = load_family_on_programs(
        checkpoint, library, precision=cast("Precision", dtype), device=torch_device
    )
    return Model(family, checkpoint)


def _template_record(state: TemplateState) -> TemplateRecord:
    return TemplateRecord(
        template_id=state.identity.digest,
        state="exact" if state.is_exact else "coded",
        num_bytes=state.num_bytes,
    )


def open_references(references: Sequence[PictureSource]) -> tuple[Image.Image, ...]:
    """Return the references as RGB pictures, in order. Raises PictureError."""
    if isinstance(references, str | Path | Image.Image):
        raise RequestError("references must be a list of pictures, got one; put it in a list")
    return tuple(
        open_picture(reference, f"references[{index}]").convert("RGB")
        for index, reference in enumerate(references)
    )


def open_mask(
    mask: PictureSource | NDArray[np.bool_], *, size: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return the (H, W) pixels of `mask` that may change. Raises PictureError."""
    if isinstance(mask, np.ndarray):
        mask = Image.fromarray(mask)
    return read_mask(open_picture(mask, "mask"), size=size)


def _seed(seed: int | None) -> int:
    return secrets.randbits(DRAWN_SEED_BITS) if seed is None else seed


def _device(device: str) -> torch.device:
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UnsupportedError(f"device {device!r} cannot be used ({reason}); use 'cpu'") from None
    return chosen
