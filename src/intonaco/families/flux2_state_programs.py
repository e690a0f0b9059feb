"""FLUX.2's denoiser on programs for edited tokens only.

Loaded chains belong to the model and serve every request of their bucket; buffers for the template's
keys and values belong to one edit. Imports no model class.

Shape letters: I image tokens, E edited tokens (the last repeated up to a bucket), R reference tokens,
N template rows, T text tokens, M model dim, b blocks of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from intonaco.backends.base import Program, torch_dtype
from intonaco.families.base import NamedTensors
from intonaco.families.flux2 import count_drawn_tokens
from intonaco.families.flux2_denoiser_specs import DenoiserSpecs
from intonaco.families.flux2_programs import ProgramDenoiser, pad_image_tokens
from intonaco.families.flux2_specs import activation_dtype
from intonaco.families.flux2_state_rotary import rotate_rows, row_turns
from intonaco.families.flux2_state_specs import (
    SparseShape,
    prologue_name,
    sparse_shape,
    sparse_specs,
)
from intonaco.families.template_state import StateSource


@dataclass(frozen=True, slots=True)
class SparseChain:
    """The loaded and bound programs of one shape, in the order of calls."""

    prologue: Program
    double: tuple[Program, ...]
    single: tuple[Program, ...]
    epilogue: Program


@dataclass(frozen=True, slots=True)
class GroupBuffers:
    """Room for one block group's state: (b, I, M) each, 0 where no template row is written."""

    first_block: int
    keys_bIM: Tensor
    values_bIM: Tensor

    def fill(
        self, source: StateSource, step: int, rows_N: Tensor, turns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Read the group's blocks at `step` into their rows, and return rotated keys and values."""
        for index in range(len(self.keys_bIM)):
            key, value = source.read(step, self.first_block + index)
            buffers = (self.keys_bIM[index], self.values_bIM[index])
            rows = (rotate_rows(key.to(turns.device), turns), value)
            for buffer_IM, rows_NM in zip(buffers, rows, strict=True):
                buffer_IM.index_copy_(0, rows_N, rows_NM.to(buffer_IM.device, buffer_IM.dtype))
        return self.keys_bIM, self.values_bIM


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSparseDenoiser:
    """A run of the edited tokens only, which attend to the template's keys and values.

    Args:
        denoiser: the dense one, whose library, weights and chains are used.
        source: the template's state.
        slots_E: int64, the edited image tokens in raster order, not yet padded.
        rows_N: int64, the other image tokens in raster order.
        check: called before every block group; see `intonaco.programs.library`.
    """

    denoiser: ProgramDenoiser
    source: StateSource
    slots_E: Tensor
    rows_N: Tensor
    check: Callable[[], None] | None = None
    _buffers: dict[SparseShape, tuple[GroupBuffers, ...]] = field(
        default_factory=dict[SparseShape, tuple[GroupBuffers, ...]]
    )

    def interruptible(self, check: Callable[[], None], /) -> ProgramSparseDenoiser:
        """Return this denoiser, over the same programs and buffers, with `check` before each group."""
        return replace(self, check=check)

    def __call__(self, inputs: NamedTensors, step: int, /) -> Tensor:
        """Return the prediction (1, I + R, C); rows of template tokens and references are 0."""
        shape = self.shape(inputs)
        chain, buffers = load_chain(self.denoiser, shape), self.buffers(shape)
        hidden, context, temb, *modulation, query_cos, query_sin, key_cos, key_sin = chain.prologue(
            *self._prologue_inputs(inputs, shape, chain.prologue)
        )
        mod_image, mod_text, mod_single = modulation
        rotary = (query_cos, query_sin)
        turns = row_turns(key_cos, key_sin, self.rows_N, shape.dense.num_text_tokens)
        slots, bound = self._padded_slots(shape), self._bound(inputs, shape)
        num_double = len(chain.double)
        for program, group in zip(chain.double, buffers[:num_double], strict=True):
            state = self._fill(group, step, turns)
            hidden, context = program(
                hidden, context, mod_image, mod_text, *rotary, slots, *state, *bound
            )
        joint = torch.cat([context, hidden], dim=1)
        for program, group in zip(chain.single, buffers[num_double:], strict=True):
            state = self._fill(group, step, turns)
            (joint,) = program(joint, mod_single, *rotary, slots, *state, *bound)
        (prediction,) = chain.epilogue(joint, temb)
        edited = prediction[:, : len(self.slots_E)]
        return torch.zeros_like(inputs["hidden_states"]).index_copy_(1, self.slots_E, edited)

    def shape(self, inputs: NamedTensors) -> SparseShape:
        """Return the shape that serves `inputs`."""
        num_drawn_tokens = count_drawn_tokens(inputs)
        return sparse_shape(
            num_drawn_tokens=num_drawn_tokens,
            num_edited_tokens=len(self.slots_E),
            num_reference_tokens=inputs["hidden_states"].shape[1] - num_drawn_tokens,
            num_text_tokens=inputs["encoder_hidden_states"].shape[1],
        )

    def buffers(self, shape: SparseShape) -> tuple[GroupBuffers, ...]:
        """Return the edit's buffers, one per block group, made at the first call."""
        if shape not in self._buffers:
            self._buffers[shape] = make_buffers(self.denoiser, shape, self.slots_E.device)
        return self._buffers[shape]

    def _fill(self, group: GroupBuffers, step: int, turns: Tensor) -> tuple[Tensor, Tensor]:
        if self.check is not None:
            self.check()
        return group.fill(self.source, step, self.rows_N, turns)

    def _padded_slots(self, shape: SparseShape) -> Tensor:
        num_missing = shape.num_edited_tokens - len(self.slots_E)
        return torch.cat([self.slots_E, self.slots_E[-1:].expand(num_missing)])

    def _prologue_inputs(
        self, inputs: NamedTensors, shape: SparseShape, prologue: Program
    ) -> tuple[Tensor, ...]:
        padded = {**inputs, **pad_image_tokens(inputs, shape.dense)}
        references = torch.arange(
            shape.num_drawn_tokens, shape.dense.num_image_tokens, device=self.slots_E.device
        )
        tokens = torch.cat([self._padded_slots(shape), references])
        chosen = {"hidden_states": padded["hidden_states"][:, tokens], "tokens": tokens}
        named = {**padded, **chosen}
        return tuple(named[item.name].contiguous() for item in prologue.spec.inputs)

    def _bound(self, inputs: NamedTensors, shape: SparseShape) -> tuple[Tensor, ...]:
        """Return the number of keys that are not padding, where some may be."""
        if not shape.dense.is_bounded:
            return ()
        num_keys = shape.dense.num_text_tokens + inputs["hidden_states"].shape[1]
        return (torch.tensor(num_keys, device=self.slots_E.device),)


def make_buffers(
    denoiser: ProgramDenoiser, shape: SparseShape, device: torch.device
) -> tuple[GroupBuffers, ...]:
    """Return zeroed room for the state of every block group, in the order of calls."""
    specs = chain_specs(denoiser, shape)
    dtype = torch_dtype(activation_dtype(denoiser.weights.precision))
    num_double_blocks: int = denoiser.weights.config["num_layers"]
    buffers: list[GroupBuffers] = []
    for group in (*specs.double, *specs.single):
        offset = 0 if group.stack == "transformer_blocks" else num_double_blocks
        (keys_shape,) = (item.shape for item in group.spec.inputs if item.name == "keys")
        keys, values = (torch.zeros(keys_shape, dtype=dtype, device=device) for _ in range(2))
        buffers.append(GroupBuffers(offset + group.first_block, keys, values))
    return tuple(buffers)


def chain_specs(denoiser: ProgramDenoiser, shape: SparseShape) -> DenoiserSpecs:
    """Return the programs for `shape`."""
    weights = denoiser.weights
    return sparse_specs(
        weights.config,
        weights.header,
        shape,
        precision=weights.precision,
        group_size=denoiser.group_size,
    )


def load_chain(denoiser: ProgramDenoiser, shape: SparseShape) -> SparseChain:
    """Return the bound programs for `shape`, loaded at its first use and kept by the denoiser."""
    if shape not in denoiser.sparse_chains:
        denoiser.sparse_chains[shape] = _load(denoiser, chain_specs(denoiser, shape))
    return denoiser.sparse_chains[shape]


def _load(denoiser: ProgramDenoiser, specs: DenoiserSpecs) -> SparseChain:
    tensors = denoiser.weights.tensors
    prologue, *blocks, epilogue = denoiser.library.load(specs.all)
    prologue.bind({prologue_name(name): tensor for name, tensor in tensors.items()})
    epilogue.bind(tensors)
    for program, group in zip(blocks, (*specs.double, *specs.single), strict=True):
        program.bind({name: tensors[source] for name, source in group.names().items()})
    num_double = len(specs.double)
    return SparseChain(prologue, tuple(blocks[:num_double]), tuple(blocks[num_double:]), epilogue)
