"""A template's state in its coded form, in memory: what a file holds and a reader needs.

Knows nothing of how the code was made (`encode.py`), what its payloads mean (`planes.py`) or how it
lies on disk. numpy-free and torch-free: plain numbers and bytes.

A template is a set of *ladders*: per block group one ladder of what all steps share, and per (step,
block group) one ladder of what that step has for itself. A ladder is a list of *increments*, best
error reduction per byte first. Any number of leading increments of any ladder decodes, whatever is
there of the others: what has not arrived counts as zero. With the codec "shared-planes-1" steps share
everything, coefficients too, so the steps' own ladders are empty: what arrives late still serves
every later step.
"""

from dataclasses import dataclass

from intonaco.errors import PackBoundsError

KEY, VALUE = 0, 1
KINDS = (KEY, VALUE)

MAX_STEPS = 1024
MAX_BLOCKS = 1024
MAX_ROWS = 1 << 20
MAX_WIDTH = 1 << 16
MAX_COMPONENTS = 1 << 12
MAX_PLANES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """The next planes of neighbouring components of one block's keys or values.

    Attributes:
        block: in the chain of all blocks.
        kind: 0 keys, 1 values.
        first_component, num_components: which components; what a component is, is the codec's
            ("shared-planes-1": one strand, see `strands.py`).
        first_plane, num_planes: which planes of each, most significant first. A component's planes
            come in order: an increment starts at the plane where the one before it ended.
        payload: the coded bytes; their meaning is the codec's.
        error: what is left of the ladder's weighted squared error once this increment is there.
    """

    block: int
    kind: int
    first_component: int
    num_components: int
    first_plane: int
    num_planes: int
    payload: bytes
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """One progressive file.

    Attributes:
        start_error: weighted squared error with nothing of this ladder there.
        increments: in the order of transfer.
        floor: number of leading increments below which no edit should be attempted.
    """

    start_error: float
    increments: tuple[Increment, ...]
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedTemplate:
    """Everything a reader needs to rebuild K and V.

    Attributes:
        codec: id of the payloads' meaning, see `docs/template-codec.md`.
        num_steps, num_rows, width: S, N, d of the state.
        block_groups: the blocks of each group, in the order of the chain; groups are the unit of
            transfer together with a step.
        bases: one ladder per block group.
        coefficients: [step][block group] ladders.
    """

    codec: str
    num_steps: int
    num_rows: int
    width: int
    block_groups: tuple[tuple[int, ...], ...]
    bases: tuple[Ladder, ...]
    coefficients: tuple[tuple[Ladder, ...], ...]

    @property
    def num_blocks(self) -> int:
        return sum(len(group) for group in self.block_groups)

    def __post_init__(self) -> None:
        check_shape(
            num_steps=self.num_steps,
            num_blocks=self.num_blocks,
            num_rows=self.num_rows,
            width=self.width,
        )
        chain = [block for group in self.block_groups for block in group]
        if chain != list(range(len(chain))):
            raise PackBoundsError(
                f"block_groups must list the blocks 0, 1, 2, ... once and in order, got {chain}"
            )
        if len(self.bases) != len(self.block_groups):
            raise PackBoundsError(
                f"bases must hold one ladder per block group, {len(self.block_groups)}, got "
                f"{len(self.bases)}"
            )
        counts = [len(ladders) for ladders in self.coefficients]
        if counts != [len(self.block_groups)] * self.num_steps:
            raise PackBoundsError(
                f"coefficients must hold {self.num_steps} x {len(self.block_groups)} ladders "
                f"(steps x block groups), got {counts} per step"
            )


def check_shape(*, num_steps: int, num_blocks: int, num_rows: int, width: int) -> None:
    """Raise PackBoundsError unless each number lies in what the format allows."""
    limits = {
        "num_steps": (num_steps, MAX_STEPS),
        "num_blocks": (num_blocks, MAX_BLOCKS),
        "num_rows": (num_rows, MAX_ROWS),
        "width": (width, MAX_WIDTH),
    }
    for name, (value, most) in limits.items():
        if not 1 <= value <= most:
            raise PackBoundsError(f"{name} must lie in 1..{most}, got {value}")
