"""The receipt that every picture carries: what drew it, well enough to draw it again.

JSON text in the PNG, under the key `intonaco`. Knows neither torch nor any model.
"""

import json
from pathlib import Path
from typing import Literal

from PIL import PngImagePlugin
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from intonaco.errors import PictureError, ReceiptError
from intonaco.pipelines.reading import DAMAGE, open_unread

SCHEMA_VERSION = 1
PNG_KEY = "intonaco"
MAX_RECEIPT_CHARACTERS = 1 << 20

Sha256 = str
StepWord = Literal["full", "cached", "forced"]


class Environment(BaseModel):
    """What the bytes may depend on besides model and request."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    versions: dict[str, str]
    cpu_capability: str
    num_threads: int


class TemplateRecord(BaseModel):
    """Which prepared template an edit used, and how much of its state.

    Attributes:
        template_id: digest of the template's identity.
        state: "exact" as captured; "coded" within a budget, all parts in time; "degraded" where parts
            were late and less was used than planned.
        num_bytes: of the template's state that were read.
        dense_from_step: the first step that computed everything instead; None = none did.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    template_id: Sha256
    state: Literal["exact", "coded", "degraded"]
    num_bytes: int = Field(ge=0)
    dense_from_step: int | None = Field(default=None, ge=0)


class EditRecord(BaseModel):
    """What an edit started from; digests are over decoded pixels."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    template_sha256: Sha256
    mask_sha256: Sha256
    feather_pixels: int
    has_source_reference: bool
    template: TemplateRecord | None = None


class StepCacheRecord(BaseModel):
    """What the step cache did.

    Attributes:
        settings: in one line, as resolved for this run.
        calibration: digest of the calibration file that they come from.
        steps: one word per step; a forced step is a full one that the policy would have cached.
        scores: the change score that each step was decided by; None where there was none.
        num_calls: steps that called the denoiser.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    settings: str
    calibration: Sha256 | None = None
    steps: list[StepWord] | tuple[StepWord, ...]
    scores: list[FiniteFloat | None] | tuple[FiniteFloat | None, ...]
    num_calls: int = Field(ge=1)
    num_cached: int = Field(ge=0)
    num_invalid_scores: int = Field(ge=0)


class Receipt(BaseModel):
    """How one picture was drawn. Frozen; `to_json` and `from_json` keep every field.

    `prompt` and `negative_prompt` are None, and words of theirs are not in `warnings`, where the
    request was private. `sigmas` and `step_ms` are empty where nothing had to be drawn.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["generate", "edit"]
    model_name: str
    model_digest: Sha256
    family: str
    dtype: str
    device: str
    backend: str = "eager"
    is_private: bool
    prompt: str | None
    negative_prompt: str | None = None
    guidance_scale: FiniteFloat | None = None
    seed: int = Field(ge=0)
    image_index: int = Field(default=0, ge=0)
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    num_steps: int = Field(ge=1)
    num_frames: int = Field(default=1, ge=1)
    sigmas: tuple[FiniteFloat, ...]
    step_ms: tuple[FiniteFloat, ...]
    references_sha256: tuple[Sha256, ...] = ()
    edit: EditRecord | None = None
    step_cache: StepCacheRecord | None = None
    picture_sha256: Sha256
    environment: Environment
    warnings: tuple[str, ...] = ()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return ASCII JSON, keys in the order of the fields."""
        return json.dumps(self.model_dump(mode="json"), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """Return the receipt in `text`, or raise ReceiptError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "text"
            raise ReceiptError(
                f"receipt cannot be read: {field}: {first['msg']}; this version reads "
                f"schema_version {SCHEMA_VERSION}"
            ) from None


def read_receipt(path: str | Path) -> Receipt:
    """Return the receipt that a PNG carries, without decoding its pixels.

    Raises ReceiptError if it carries none, or one that is damaged or of another version.
    """
    try:
        opened = open_unread(Path(path), "picture", formats=("PNG",))
    except PictureError as error:
        raise ReceiptError(str(error)) from None
    with opened:
        try:
            text = opened.info.get(PNG_KEY)
        except DAMAGE as error:
            raise ReceiptError(f"picture {path} is damaged ({error})") from None
    if not isinstance(text, str):
        raise ReceiptError(
            f"picture {path} carries no receipt (PNG text {PNG_KEY!r}); use a PNG that intonaco "
            "saved, unchanged"
        )
    if len(text) > MAX_RECEIPT_CHARACTERS:
        raise ReceiptError(
            f"picture {path}: a receipt has at most {MAX_RECEIPT_CHARACTERS} characters, this one "
            f"{len(text)}"
        )
    return Receipt.from_json(text)


def png_text(receipt: Receipt) -> PngImagePlugin.PngInfo:
    """Return what Pillow writes into a PNG to carry `receipt`."""
    information = PngImagePlugin.PngInfo()
    information.add_text(PNG_KEY, receipt.to_json())
    return information
