"""What clients may send: the fields of OpenAI's image and video routes, and ours beside them.

A field that is not here, or whose value cannot be kept, is refused by name; nothing is ignored.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_SEED = 2**63 - 1


class Common(BaseModel):
    """Fields of everything that is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(None, max_length=200, description="the served model, or left out")
    size: str | None = Field(
        None, max_length=20, description="WIDTHxHEIGHT in pixels, or auto", examples=["192x192"]
    )
    user: str | None = Field(None, max_length=200, description="shares the queue fairly by user")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="default: drawn and returned")
    steps: int | None = Field(None, ge=1, le=1000, description="denoising steps")
    step_cache: str | None = Field(None, max_length=100, description="one that /v1/profile lists")
    negative_prompt: str | None = Field(None, description="for models with guidance")
    guidance_scale: float | None = Field(None, ge=0, le=100, allow_inf_nan=False)
    private: bool | None = Field(None, description="leave the prompt out of the receipt")
    timeout_s: float | None = Field(
        None, gt=0, le=86_400, allow_inf_nan=False, description="until all of it is drawn"
    )

    @property
    def num_pictures(self) -> int:
        """How many pictures, or films, are asked for."""
        return 1


class Shared(Common):
    """Fields of both image routes."""

    n: int | None = Field(None, ge=1, le=100, description="pictures, of one seed")
    response_format: Literal["b64_json"] | None = Field(
        None, description="b64_json; addresses of pictures are not given out"
    )
    output_format: Literal["png", "jpeg", "webp"] | None = Field(None, description="default png")
    output_compression: int | None = Field(
        None, ge=0, le=100, description="quality of jpeg and webp; png has none"
    )
    quality: Literal["auto"] | None = Field(None, description="auto; choose steps instead")
    background: Literal["auto", "opaque"] | None = Field(None, description="always opaque")
    stream: bool | None = Field(None, description="answer by server-sent events")
    partial_images: int | None = Field(
        None, ge=0, le=3, description="previews per picture; only with stream"
    )

    @property
    def num_pictures(self) -> int:
        return self.n or 1


class GenerationBody(Shared):
    """The JSON of `POST /v1/images/generations` and `POST /v1/jobs`."""

    model_config = ConfigDict(strict=True)

    prompt: str = Field(description="what to draw")
    moderation: Literal["auto"] | None = Field(None, description="there is none")
    style: None = Field(None, description="say it in the prompt")


class EditForm(Shared):
    """The text fields of `POST /v1/images/edits`; pictures travel beside them."""

    prompt: str = Field("", description="what the changed picture shows; empty with references")
    input_fidelity: None = Field(
        None, description="pixels outside the mask always stay as they are"
    )
    feather_pixels: int | None = Field(None, ge=0, le=64, description="blend inside the mask")
    mask_format: Literal["alpha", "white"] | None = Field(
        None, description="alpha (0 = edit, the default) or white (= edit)"
    )


class VideoBody(Common):
    """The fields of `POST /v1/videos`, as JSON or as the text fields of a form."""

    prompt: str = Field(description="what the film shows")
    seconds: str | float | None = Field(
        None, description="from the first frame to the last; default: the model's", examples=["5"]
    )
    input_reference: None = Field(None, description="films are drawn from words alone")
