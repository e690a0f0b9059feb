"""What the device's process and its reconstruction processes tell each other: small JSON records."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from intonaco.errors import StreamingError
from intonaco.streaming.failures import Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Get ready for a template whose files lie in shared memory.

    Attributes:
        num_manifest_bytes: its manifest lies at the start.
        num_bytes: of all files.
        worker, num_workers: this process decodes every `num_workers`-th unit, from `worker` on.
    """

    kind: Literal["prepare"] = "prepare"
    num_manifest_bytes: int
    num_bytes: int
    worker: int
    num_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """An edit begins: decode what arrives, the first shards first."""

    kind: Literal["follow"] = "follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The edit is over: decode what it left undecoded, then nothing until the next one."""

    kind: Literal["rest"] = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """Write a shard's keys and values into a slot by `turn_at`; answered by `Made`.

    Attributes:
        coefficient_bytes, basis_bytes: prefixes that have arrived.
        coefficient_floor_bytes, basis_floor_bytes: as much of them is decoded however late that is,
            the rest as far as time allows.
        turn_at: on the system-wide monotonic clock.
    """

    kind: Literal["make"] = "make"
    shard: int
    slot: int
    coefficient_bytes: int
    basis_bytes: int
    coefficient_floor_bytes: int = 0
    basis_floor_bytes: int = 0
    turn_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """This process is up, its kernels are loaded.

    Attributes:
        bytes_per_s: of the template's files, at which it expects to decode its share of the units, from
            made-up numbers; None if it decodes none.
    """

    kind: Literal["ready"] = "ready"
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A shard lies in its slot.

    Attributes:
        coefficient_bytes, basis_bytes: the prefixes that it was made from.
        seconds: what this shard could not do without: its floors, keys and values.
        decoded_bytes, decode_s: of any shard, since the last answer.
        trouble: why less was decoded than had arrived, "" where only time was short.
    """

    kind: Literal["made"] = "made"
    shard: int
    coefficient_bytes: int
    basis_bytes: int
    seconds: float
    decoded_bytes: int
    decode_s: float
    trouble: str


Task = Prepare | Follow | Rest | Make
Answer = Ready | Made | Failed
TASK: TypeAdapter[Task] = TypeAdapter(Annotated[Task, Field(discriminator="kind")])
ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])


def decode_task(content: bytes) -> Task:
    """Raises StreamingError for anything but a task."""
    try:
        return TASK.validate_json(content)
    except ValidationError as error:
        raise StreamingError(f"no task for reconstruction: {error.errors()[0]['msg']}") from None


def decode_answer(content: bytes) -> Answer:
    """Raises StreamingError for anything but an answer."""
    try:
        return ANSWER.validate_json(content)
    except ValidationError as error:
        raise StreamingError(f"no answer of reconstruction: {error.errors()[0]['msg']}") from None
