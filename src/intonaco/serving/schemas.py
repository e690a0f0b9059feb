"""What the server answers, for the OpenAPI page."""

from typing import Any

from pydantic import BaseModel

NUMBERS = {
    400: "a field cannot be kept; `param` names it",
    401: "the bearer key is missing or wrong",
    403: "a page of another site asked",
    408: "the body took too long",
    409: "the job was cancelled",
    413: "the body is too large",
    429: "the queue is full; see Retry-After",
    502: "the model process died, hung or raised; it is replaced",
    503: "not ready; see Retry-After",
    504: "out of time",
}


class ErrorFields(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: ErrorFields


class ImageFields(BaseModel):
    """One picture."""

    b64_json: str
    seed: int
    image_index: int
    receipt: dict[str, Any]
    timings: dict[str, float]


class ImagesAnswer(BaseModel):
    """The pictures of one request."""

    created: int
    background: str
    output_format: str
    size: str
    data: list[ImageFields]


class JobAnswer(BaseModel):
    """A job, and the pictures of it that are done."""

    id: str
    object: str
    status: str
    num_pictures: int
    num_done: int
    error: ErrorFields | None
    data: list[ImageFields]


class VideoAnswer(BaseModel):
    """A film: what was asked, how far it is, and how it was drawn."""

    id: str
    object: str
    status: str
    progress: int
    created_at: int
    completed_at: int | None
    expires_at: int | None
    error: ErrorFields | None
    model: str
    prompt: str | None
    remixed_from_video_id: str | None
    seconds: str
    size: str
    seed: int
    receipt: dict[str, Any] | None
    timings: dict[str, float] | None


class VideoList(BaseModel):
    """Films, a page of them."""

    object: str
    data: list[VideoAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(BaseModel):
    """A film that is no more."""

    id: str
    object: str
    deleted: bool


FAULTS: dict[int | str, dict[str, Any]] = {
    number: {"model": ErrorAnswer, "description": meaning} for number, meaning in NUMBERS.items()
}

# Beside the JSON of an answer: the same by server-sent events.
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
