"""The serving profile: everything that a server is told, in one frozen object.

Read from YAML or TOML, each field overridable by a flag. Unknown fields are refused.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from intonaco.errors import ProfileError

MAX_PROFILE_BYTES = 1 << 20
MIN_KEY_CHARACTERS = 16
SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})", re.ASCII)

Seconds = Annotated[float, Field(gt=0, le=86_400)]
FilmSeconds = Annotated[float, Field(gt=0, le=60)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class ServingProfile(BaseModel):
    """What a server serves, within which limits. Every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(
        None, description="folder in diffusers' format, or a hub id; null = the built-in model"
    )
    model_digest: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="refuse weights with another digest"
    )
    dtype: str = Field("float32", description="float32, bfloat16; on programs also w8a16, w8a8")
    device: str = Field("cpu", description="torch device")
    backend: str = Field("eager", description="eager, inductor or openvino")
    store: str | None = Field(None, description="folder of compiled programs; null = the user's")
    may_compile: bool = Field(True, description="compile programs that the store lacks, at start")
    num_threads: Count | None = Field(None, description="threads of a step; null = torch's choice")
    max_memory_bytes: int | None = Field(
        None, ge=1 << 20, description="address space of the model process; null = unbounded"
    )

    host: str = Field("127.0.0.1", description="address to bind; any but loopback needs a key")
    port: int = Field(8000, ge=0, le=65_535, description="0 = a free one, printed at start")
    api_key_file: Path | None = Field(
        None, description="file with the bearer key, 16 characters or more; null = no key"
    )

    sizes: tuple[str, ...] = Field((), description="sizes on offer; empty = all that fit the model")
    max_pixels: Count = Field(1_000_000, description="width x height of a drawn picture or frame")
    film_seconds: tuple[FilmSeconds, ...] = Field(
        (),
        description="lengths of films on offer; empty = all that fit, on programs the model's default",
    )
    max_film_seconds: FilmSeconds = Field(5, description="length of a film, at 16 frames a second")
    max_steps: int = Field(50, ge=1, le=1000, description="denoising steps of a picture or film")
    step_caches: tuple[str, ...] = Field(
        ("off", "cadence:2", "online-delta"),
        min_length=1,
        description="step caches on offer, the default first; each is tried at start",
    )
    max_pictures: int = Field(10, ge=1, le=100, description="n: pictures of one request")
    max_prompt_characters: int = Field(4000, ge=1, le=20_000, description="characters of a prompt")
    max_references: int = Field(4, ge=0, le=10, description="reference pictures of one request")
    max_input_pixels: Count = Field(
        1_000_000, description="pixels of all pictures sent with one request, before decoding"
    )
    max_body_bytes: int = Field(16 << 20, ge=1024, le=1 << 30, description="bytes of a body")
    max_queue: int = Field(32, ge=1, le=10_000, description="pictures that may wait")
    max_connections: int = Field(256, ge=1, le=65_535, description="connections at a time")
    max_jobs_kept: int = Field(64, ge=1, le=10_000, description="finished jobs that can be read")

    request_timeout_s: Seconds = Field(300, description="from arrival to the last picture")
    body_timeout_s: Seconds = Field(30, description="from the headers to the end of the body")
    step_timeout_s: Seconds = Field(60, description="without a sign of the model process")
    cancel_timeout_s: Seconds = Field(10, description="to confirm a cancel, else it is replaced")
    start_timeout_s: Seconds = Field(600, description="from start to ready, compiling included")
    stop_timeout_s: Seconds = Field(5, description="to end by itself before it is killed")
    drain_timeout_s: Seconds = Field(30, description="to finish accepted requests after SIGTERM")
    max_starts: int = Field(3, ge=1, le=100, description="starts in a row that may fail")

    log_prompts: bool = Field(False, description="write prompts into the log")

    @field_validator("sizes")
    @classmethod
    def _sizes_are_sizes(cls, sizes: tuple[str, ...]) -> tuple[str, ...]:
        for size in sizes:
            if parse_size(size) is None:
                raise ValueError(f"{size!r} is no size; write WIDTHxHEIGHT, such as 192x192")
        return sizes

    @model_validator(mode="after")
    def _limits_fit_each_other(self) -> "ServingProfile":
        if self.max_pictures > self.max_queue:
            raise ValueError(
                f"max_pictures must be at most max_queue {self.max_queue}, got {self.max_pictures}"
            )
        if not is_loopback(self.host) and self.api_key_file is None:
            raise ValueError(
                f"host {self.host!r} can be reached from elsewhere, so api_key_file must be set; "
                "set it, or bind 127.0.0.1"
            )
        return self


def parse_size(text: str) -> tuple[int, int] | None:
    """Return (width, height) of a text such as "192x192", or None."""
    match = SIZE.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_profile(path: Path | None, overrides: Mapping[str, Any]) -> ServingProfile:
    """Return the profile in `path` (None: all defaults) with `overrides` laid over it.

    Raises ProfileError, which names the field.
    """
    fields = {} if path is None else _read_fields(path)
    return make_profile({**fields, **overrides}, where="serving profile" if path is None else path)


def make_profile(fields: Mapping[str, Any], *, where: object = "serving profile") -> ServingProfile:
    """Return the profile with `fields`. Raises ProfileError with the first field that is wrong."""
    try:
        return ServingProfile.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(ServingProfile.model_fields)
            raise ProfileError(f"{where}: {name} is no field; known are {known}") from None
        message = first["msg"].removeprefix("Value error, ")
        got = f", got {first['input']!r:.60}" if name else ""
        raise ProfileError(f"{where}: {name + ': ' if name else ''}{message}{got}") from None


def read_key(profile: ServingProfile) -> str | None:
    """Return the bearer key, or None where the profile names no file. Raises ProfileError."""
    file = profile.api_key_file
    if file is None:
        return None
    try:
        key = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"api_key_file {file} cannot be read ({error}); check it") from None
    if len(key) < MIN_KEY_CHARACTERS or not key.isprintable() or " " in key:
        raise ProfileError(
            f"api_key_file {file} must hold one key of {MIN_KEY_CHARACTERS} or more printable "
            f"characters without spaces, got {len(key)}"
        )
    return key


def _read_fields(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PROFILE_BYTES + 1)
        if len(content) > MAX_PROFILE_BYTES:
            raise ProfileError(f"{path} must have at most {MAX_PROFILE_BYTES} bytes")
        text = content.decode()
        parsed: object = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ProfileError(f"{path} cannot be read as a serving profile ({reason})") from None
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise ProfileError(f"{path} must hold fields, such as 'port: 8000'; it holds none")
    return {str(name): value for name, value in cast("dict[object, Any]", parsed).items()}
