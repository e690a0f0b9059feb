"""Template state: what one run of the denoiser leaves behind for the edits of a template.

Holds the seams only: who writes keys and values (a tap), who hands them out again (a source), and
their shape. Knows nothing of files, codecs or links.

A *unit* is (step, block, kind), kind being "key" or "value": a matrix (N, d) with one row per
template token that may not change, in raster order, and d = heads x head dim merged. Keys are those
after qk-norm and before rotary embedding, values are raw: what an edit adds to them (positions)
costs nothing, and what is stored has the lowest rank. Steps count from 0. Blocks are numbered
through the chain: double-stream blocks first, then single-stream ones.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from intonaco.families.base import EditableFamily

Kind = Literal["key", "value"]
KINDS: tuple[Kind, Kind] = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateShape:
    """How much state a template has.

    Attributes:
        num_steps, num_blocks: units of each kind = num_steps * num_blocks.
        num_rows: N, template tokens that no edit changes.
        width: d, heads x head dim.
    """

    num_steps: int
    num_blocks: int
    num_rows: int
    width: int

    @property
    def num_values(self) -> int:
        """Numbers in all units, keys and values together."""
        return len(KINDS) * self.num_steps * self.num_blocks * self.num_rows * self.width


class StateSource(Protocol):
    """Hands out template state: from memory, from a file, from a pack or from a live stream."""

    @property
    def shape(self) -> StateShape: ...

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        """Return keys and values, each (N, d), in any floating dtype, on the host or where the model is.

        An edit asks for each (step, block) once, in the order of execution. A source may answer
        with whatever quality it has; it answers with finite numbers or raises an IntonacoError.
        """
        ...


class KeyValueTap(Protocol):
    """Receives the keys and values of a dense run."""

    def write(self, step: int, block: int, key: Tensor, value: Tensor, /) -> None:
        """Take keys and values (I, d) of all image tokens; a tap that keeps them copies them."""
        ...


class AttentionTap(Protocol):
    """Receives what attention computes with, for statistics."""

    def write(
        self,
        step: int,
        block: int,
        query_QHD: Tensor,
        key_KHD: Tensor,
        value_KHD: Tensor,
        /,
        *,
        num_text_tokens: int,
    ) -> None:
        """Take one block's query and key (rotated) and value; a tap that keeps them copies them.

        Queries and keys are `num_text_tokens` text tokens first, then all image tokens in raster order, then
        reference tokens; weights are softmax(query @ key / sqrt(D)) per head.
        """
        ...


class StateRuns(Protocol):
    """A family's denoiser as template state needs it; `intonaco.families.state_runs` makes one."""

    @property
    def num_blocks(self) -> int: ...

    @property
    def stack_sizes(self) -> tuple[int, ...]:
        """How many blocks each stack of like blocks has, in the order of the chain."""
        ...

    @property
    def width(self) -> int:
        """d, heads x head dim."""
        ...

    def tapped(
        self,
        num_image_tokens: int,
        /,
        *,
        tap: KeyValueTap | None = None,
        attention_tap: AttentionTap | None = None,
    ) -> EditableFamily:
        """Return the family with a denoiser that computes the same and writes to the taps."""
        ...

    def reusing(self, source: StateSource, is_edited_I: NDArray[np.bool_], /) -> EditableFamily:
        """Return the family with a denoiser that computes edited tokens only.

        They attend to each other, to text, to references, and to `source` for all other image
        tokens, whose prediction is 0. Raises RequestError where `source` has other numbers.
        """
        ...
