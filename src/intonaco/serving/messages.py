"""What the API process and the model process say to each other: small frozen records.

One message is a JSON header and raw pixels. No pickle, no path of a client, no code.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from intonaco.errors import MessageError
from intonaco.serving.profile import ServingProfile

NUM_BANDS = {"L": 1, "RGB": 3}


class Message(BaseModel):
    """Base of all messages. `pictures` describe the raw pixels that follow the header."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PictureHeader(Message):
    """Size and mode of raw pixels, 8 bits a band, row by row."""

    mode: Literal["L", "RGB"]
    width: int = Field(ge=1, le=16_384)
    height: int = Field(ge=1, le=16_384)

    @property
    def num_bytes(self) -> int:
        return self.width * self.height * NUM_BANDS[self.mode]


class RawPicture(BaseModel):
    """A picture as pixels: what crosses between the processes."""

    model_config = ConfigDict(frozen=True)

    header: PictureHeader
    pixels: bytes = Field(repr=False)


class ModelFacts(Message):
    """What a started model process says of its model; the API checks requests by it.

    Attributes:
        model_digest: sha256 over the checkpoint's files.
        program_digests: digests of the compiled programs; none on eager modules.
        sizes: the only sizes on offer; empty = all that fit. On compiled programs always listed, since
            another size would compile within a request.
        can_take_references: False on compiled programs, for the same reason.
        token_pixels: side of the square of pixels that one token stands for.
        smoke_sha256: digest of the smoke generation's pixels.
    """

    model_name: str
    model_digest: str
    family: str
    dtype: str
    device: str
    backend: str
    program_digests: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    can_take_references: bool = True
    default_width: int
    default_height: int
    default_num_steps: int
    token_pixels: int
    min_side_pixels: int
    max_pixels: int
    max_prompt_tokens: int
    tokenizer_folder: str
    can_edit: bool
    is_distilled: bool
    num_threads: int
    smoke_sha256: str
    smoke_num_cached: int
    load_s: float
    smoke_s: float


class Load(Message):
    """First message to a model process: load this profile."""

    kind: Literal["load"] = "load"
    profile: ServingProfile


class Draw(Message):
    """Draw one picture. `pictures`: of an edit template (RGB) and mask (L, 255 = edit), then
    references (RGB); of a generation references alone."""

    kind: Literal["draw"] = "draw"
    draw_id: str
    task: Literal["generate", "edit"]
    prompt: str
    seed: int
    image_index: int = 0
    width: int
    height: int
    num_steps: int
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    step_cache: str = "off"
    is_private: bool = False
    feather_pixels: int = 6
    preview_steps: tuple[int, ...] = ()
    pictures: tuple[PictureHeader, ...] = ()


class Cancel(Message):
    """Stop `draw_id` after the step that is being done."""

    kind: Literal["cancel"] = "cancel"
    draw_id: str


class Stop(Message):
    """End when what is being drawn is done."""

    kind: Literal["stop"] = "stop"


class Loading(Message):
    """A phase of the start has begun."""

    kind: Literal["loading"] = "loading"
    phase: str


class Ready(Message):
    """The smoke generation passed."""

    kind: Literal["ready"] = "ready"
    facts: ModelFacts


class StartFailed(Message):
    """The model cannot be served. `is_final`: another start would fail in the same way."""

    kind: Literal["start_failed"] = "start_failed"
    error: str
    message: str
    is_final: bool


class Stepped(Message):
    """Step `index` is done; one picture follows where a preview of this step was asked for."""

    kind: Literal["stepped"] = "stepped"
    draw_id: str
    index: int
    num_steps: int
    elapsed_s: float
    pictures: tuple[PictureHeader, ...] = ()


class Drawn(Message):
    """The picture is done and follows. `receipt` is JSON; `draw_ms` counts the drawing alone."""

    kind: Literal["drawn"] = "drawn"
    draw_id: str
    receipt: str
    warnings: tuple[str, ...]
    draw_ms: float
    pictures: tuple[PictureHeader, ...]


class DrawFailed(Message):
    """Nothing was drawn: it was cancelled, cannot be done, or something raised."""

    kind: Literal["draw_failed"] = "draw_failed"
    draw_id: str
    cause: Literal["cancelled", "input", "fault"]
    error: str
    message: str


AnyMessage = Annotated[
    Load | Draw | Cancel | Stop | Loading | Ready | StartFailed | Stepped | Drawn | DrawFailed,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[AnyMessage] = TypeAdapter(AnyMessage)


def to_header(message: AnyMessage) -> bytes:
    """Return `message` as JSON."""
    return message.model_dump_json().encode()


def from_header(header: bytes) -> AnyMessage:
    """Return the message in `header`. Raises MessageError."""
    try:
        return _ADAPTER.validate_json(header)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "header"
        raise MessageError(f"message cannot be read: {place}: {first['msg']}") from None


def picture_headers(message: AnyMessage) -> tuple[PictureHeader, ...]:
    """Return what pixels follow the header of `message`."""
    return message.pictures if isinstance(message, Draw | Stepped | Drawn) else ()


def join_pixels(message: AnyMessage, pictures: tuple[RawPicture, ...]) -> bytes:
    """Return the pixels that follow the header of `message`. Raises MessageError."""
    if tuple(picture.header for picture in pictures) != picture_headers(message):
        raise MessageError(f"{message.kind}: the pictures are not those that its header lists")
    return b"".join(picture.pixels for picture in pictures)


def split_pixels(message: AnyMessage, pixels: bytes) -> tuple[RawPicture, ...]:
    """Return the pictures in `pixels`, as the header of `message` lists them.

    Raises MessageError where the lengths differ.
    """
    headers = picture_headers(message)
    expected = sum(header.num_bytes for header in headers)
    if expected != len(pixels):
        raise MessageError(f"{message.kind}: {len(pixels)} bytes of pixels, its header {expected}")
    pictures: list[RawPicture] = []
    start = 0
    for header in headers:
        end = start + header.num_bytes
        pictures.append(RawPicture(header=header, pixels=pixels[start:end]))
        start = end
    return tuple(pictures)
