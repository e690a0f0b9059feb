"""What the process of the device and the process of the network tell each other.

Small frozen records as JSON. None of them has a field for a prompt, a picture, a mask or a seed:
the process that talks to the network never learns them.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from intonaco.errors import StoreError
from intonaco.streaming.failures import Failed
from intonaco.streaming.link import Fault
from intonaco.streaming.settings import StreamSettings

StartWord = Literal["run", "borrow", "dense", "give-up"]
MAX_MESSAGE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLink:
    """A slower link than the real one, for demos and tests. Its time begins with each edit.

    Attributes:
        mbps: rate of each second; repeated from its start when it ends.
        faults: of edits; opening a template meets none.
    """

    mbps: tuple[float, ...]
    start_s: float = 0.0
    round_trip_s: float = 0.04
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Fetch the manifest of a template and the files without which no edit can begin.

    Attributes:
        folder: of the template, below the store's URL; "" if the URL is the template's own.
        cache_folder: of prefixes; None keeps nothing on the device.
    """

    kind: Literal["open"] = "open"
    url: str
    folder: str
    cache_folder: str | None
    cache_bytes: int
    idle_s: float
    emulated: EmulatedLink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """An edit begins. Times are planned seconds on this device; see `EditPlan`."""

    kind: Literal["begin"] = "begin"
    run_s: tuple[float, ...]
    reconstruct_s: tuple[float, ...]
    dense_step_s: float | None
    decode_bytes_per_s: float | None = None
    start_at: float
    settings: StreamSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStart:
    """How does this shard start? Answered by `Started`."""

    kind: Literal["ask-start"] = "ask-start"
    shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """This shard runs since `at`, a time of the system-wide monotonic clock."""

    kind: Literal["begun"] = "begun"
    shard: int
    has_borrowed: bool
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The running shard ended at `at`."""

    kind: Literal["ended"] = "ended"
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The edit is over: stop fetching. Answered by `Summary`."""

    kind: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Manifest and whole files lie in the shared memory, as `Layout` says."""

    kind: Literal["opened"] = "opened"
    num_manifest_bytes: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a shard starts, and which prefixes of its two files it may read.

    Attributes:
        coefficient_floor_bytes, basis_floor_bytes: prefixes that make up the shard's floor.
        is_cut: something that was asked for it is not here.
    """

    kind: Literal["started"] = "started"
    shard: int
    word: StartWord
    level: int | None
    coefficient_bytes: int
    basis_bytes: int
    coefficient_floor_bytes: int = 0
    basis_floor_bytes: int = 0
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the stream stands, for whoever watches.

    Attributes:
        levels: per shard, what has arrived; None below the floor.
        trouble: the last thing that went wrong on the link, "" if nothing did.
    """

    kind: Literal["progress"] = "progress"
    bytes_per_s: float
    num_bytes: int
    levels: tuple[int | None, ...]
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one edit cost, and every byte that was sent for it.

    Attributes:
        num_bytes: received of progressive files.
        sent: one text per request, as it went over the wire.
        num_connections: opened, the first one counted.
        troubles: what went wrong, in order.
    """

    kind: Literal["summary"] = "summary"
    num_bytes: int
    bytes_per_s: float
    sent: tuple[str, ...]
    num_connections: int
    troubles: tuple[str, ...]


ToNetwork = Annotated[Open | Begin | AskStart | Begun | Ended | Finish, Field(discriminator="kind")]
ToDevice = Annotated[Opened | Failed | Started | Progress | Summary, Field(discriminator="kind")]
TO_NETWORK: TypeAdapter[Open | Begin | AskStart | Begun | Ended | Finish] = TypeAdapter(ToNetwork)
TO_DEVICE: TypeAdapter[Opened | Failed | Started | Progress | Summary] = TypeAdapter(ToDevice)


def decode_to_network(content: bytes) -> Open | Begin | AskStart | Begun | Ended | Finish:
    """Return the message to the network's process. Raises StoreError for anything else."""
    try:
        return TO_NETWORK.validate_json(content)
    except ValidationError as error:
        raise StoreError(
            f"no message to the network's process: {error.errors()[0]['msg']}"
        ) from None


def decode_to_device(content: bytes) -> Opened | Failed | Started | Progress | Summary:
    """Return the message to the device's process. Raises StoreError for anything else."""
    try:
        return TO_DEVICE.validate_json(content)
    except ValidationError as error:
        raise StoreError(
            f"no message to the device's process: {error.errors()[0]['msg']}"
        ) from None
