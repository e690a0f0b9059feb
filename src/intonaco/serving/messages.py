"""What the API process and the model process say to each other: small frozen records.

One message is a JSON header and raw pixels; the pixels of a film travel encoded, after a picture of it.
No pickle, no path of a client, no code.
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


class FilmFacts(Message):
    """What a model of films can draw.

    Attributes:
        default_num_frames: of a film that leaves its length out.
        frames_per_latent: a film has 1 + a multiple of this many frames.
        num_frames: the only lengths on offer, in frames; empty = all that fit.
        max_pixels: width x height x frames.
    """

    default_num_frames: int
    frames_per_latent: int
    frames_per_s: int
    num_frames: tuple[int, ...] = ()
    max_pixels: int


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
        film: None where the model draws pictures; else it draws films alone.
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
    film: FilmFacts | None = None


class Load(Message):
    """First message to a model process: load this profile."""

    kind: Literal["load"] = "load"
    profile: ServingProfile


class Draw(Message):
    """Draw one picture, or one film of `num_frames`. `pictures`: of an edit template (RGB) and mask (L,
    255 = edit), then references (RGB); of a generation references alone; of a film none."""

    kind: Literal["draw"] = "draw"
    draw_id: str
    task: Literal["generate", "edit", "film"]
    prompt: str
    seed: int
    image_index: int = 0
    width: int
    height: int
    num_steps: int
    num_frames: int = 1
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
    """The picture is done and follows; of a film its first frame, then the whole of it as an MP4 file.

    Attributes:
        receipt: JSON.
        draw_ms: counts the drawing, and the encoding of a film.
        film_bytes: length of the MP4 file; 0 = none.
    """

    kind: Literal["drawn"] = "drawn"
    draw_id: str
    receipt: str
    warnings: tuple[str, ...]
    draw_ms: float
    pictures: tuple[PictureHeader, ...]
    film_bytes: int = Field(0, ge=0)


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


def film_length(message: AnyMessage) -> int:
    """Return how many bytes of a film follow the pixels of `message`."""
    return message.film_bytes if isinstance(message, Drawn) else 0


def join_payload(message: AnyMessage, pictures: tuple[RawPicture, ...], film: bytes = b"") -> bytes:
    """Return what follows the header of `message`: pixels, then the film. Raises MessageError."""
    if tuple(picture.header for picture in pictures) != picture_headers(message):
        raise MessageError(f"{message.kind}: the pictures are not those that its header lists")
    if len(film) != film_length(message):
        raise MessageError(
            f"{message.kind}: the film has {len(film)} bytes, its header {film_length(message)}"
        )
    return b"".join((*(picture.pixels for picture in pictures), film))


def split_payload(message: AnyMessage, payload: bytes) -> tuple[tuple[RawPicture, ...], bytes]:
    """Return the pictures and the film in `payload`, as the header of `message` lists them.

    Raises MessageError where the lengths differ.
    """
    headers = picture_headers(message)
    expected = sum(header.num_bytes for header in headers) + film_length(message)
    if expected != len(payload):
        raise MessageError(
            f"{message.kind}: a payload of {len(payload)} bytes, its header {expected}"
        )
    pictures: list[RawPicture] = []
    start = 0
    for header in headers:
        end = start + header.num_bytes
        pictures.append(RawPicture(header=header, pixels=payload[start:end]))
        start = end
    return tuple(pictures), payload[start:]
