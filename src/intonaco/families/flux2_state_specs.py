"""FLUX.2's programs for edited tokens only, as specs derived from the dense ones. Imports no torch.

The number of edited tokens never enters a digest: it is rounded up to a bucket, an eighth of an octave
wide and at least 8 tokens, so at most an eighth is computed for nothing (and never more than 7 tokens
of a small edit), with eight programs per doubling. How many reference tokens there are is rounded as
`flux2_shapes` does. Prompt, seed, template, mask and steps are no part of a spec at all.

Shape letters: E edited tokens (a bucket), R reference tokens (a bucket), T text tokens, I image tokens,
Q = T + E + R, K = T + I + R, M model dim, D head dim, b blocks of a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from intonaco.backends.spec import Precision, ProgramSpec, TensorSpec
from intonaco.families.flux2_denoiser_specs import (
    DenoiserSpecs,
    default_group_size,
    denoiser_specs,
)
from intonaco.families.flux2_shapes import DenoiserShape, denoiser_shape
from intonaco.families.flux2_specs import activation_dtype
from intonaco.programs.groups import GroupSpec, value
from intonaco.programs.presharding import Header

BUILDERS = "intonaco.families.flux2_state_builders"
SOURCES = (
    "intonaco.families.flux2_builders",
    "intonaco.families.flux2_state_attention",
    "intonaco.attention.joint",
)
MIN_BUCKET = 8
BUCKETS_PER_OCTAVE = 8
# State arrives a block group at a time; a group that waits for fewer blocks starts earlier.
MAX_BLOCKS_PER_CALL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseShape:
    """The lengths that programs for edited tokens are compiled for.

    Attributes:
        num_drawn_tokens: I, all tokens of the picture.
        num_edited_tokens: E, a bucket.
        dense: the dense run's shape: R = dense.num_image_tokens - I.
    """

    num_drawn_tokens: int
    num_edited_tokens: int
    dense: DenoiserShape

    @property
    def num_reference_tokens(self) -> int:
        """R, padding included."""
        return self.dense.num_image_tokens - self.num_drawn_tokens

    @property
    def queries(self) -> DenoiserShape:
        """The shape of a dense run of the query tokens."""
        return replace(
            self.dense, num_image_tokens=self.num_edited_tokens + self.num_reference_tokens
        )


def edited_bucket(num_edited_tokens: int, *, num_drawn_tokens: int) -> int:
    """Return the bucket that holds so many edited tokens; never more than there are.

    >>> [edited_bucket(count, num_drawn_tokens=1024) for count in (1, 15, 102, 256, 410, 1000)]
    [8, 16, 104, 256, 416, 1024]
    """
    octave = 1 << max(num_edited_tokens - 1, 1).bit_length() - 1
    width = max(MIN_BUCKET, octave // BUCKETS_PER_OCTAVE)
    return min(-(-num_edited_tokens // width) * width, num_drawn_tokens)


def sparse_shape(
    *,
    num_drawn_tokens: int,
    num_edited_tokens: int,
    num_reference_tokens: int,
    num_text_tokens: int,
) -> SparseShape:
    """Return the shape whose programs serve an edit of so many tokens."""
    return SparseShape(
        num_drawn_tokens=num_drawn_tokens,
        num_edited_tokens=edited_bucket(num_edited_tokens, num_drawn_tokens=num_drawn_tokens),
        dense=denoiser_shape(
            num_drawn_tokens=num_drawn_tokens,
            num_reference_tokens=num_reference_tokens,
            num_text_tokens=num_text_tokens,
        ),
    )


def sparse_specs(
    config: Mapping[str, Any],
    header: Header,
    shape: SparseShape,
    *,
    precision: Precision = "float32",
    group_size: int | None = None,
) -> DenoiserSpecs:
    """Return the programs of an edit; `group_size` None bounds it by `MAX_BLOCKS_PER_CALL`."""
    if group_size is None:
        group_size = min(default_group_size(config, shape.queries, precision), MAX_BLOCKS_PER_CALL)
    dense = denoiser_specs(
        config, header, shape.queries, precision=precision, group_size=group_size
    )
    plan = _SparsePlan(shape, config, precision)
    return DenoiserSpecs(
        prologue=plan.prologue(dense.prologue),
        double=tuple(plan.group(group, "double") for group in dense.double),
        single=tuple(plan.group(group, "single") for group in dense.single),
        epilogue=dense.epilogue,
    )


@dataclass(frozen=True, slots=True)
class _SparsePlan:
    shape: SparseShape
    config: Mapping[str, Any]
    precision: Precision

    def prologue(self, dense: ProgramSpec) -> ProgramSpec:
        num_image, num_queries = (
            self.shape.dense.num_image_tokens,
            self.shape.queries.num_image_tokens,
        )
        positions = TensorSpec(name="img_ids", shape=(1, num_image, 4), dtype="int64")
        inputs = (positions if item.name == "img_ids" else item for item in dense.inputs)
        return dense.model_copy(
            update={
                "component": "denoiser/sparse-prologue",
                "builder": f"{BUILDERS}:build_prologue",
                "sources": (*dense.sources, *SOURCES),
                "inputs": (*inputs, TensorSpec(name="tokens", shape=(num_queries,), dtype="int64")),
                "outputs": (*dense.outputs, *self._key_rotary()),
                "constants": tuple(
                    item.model_copy(update={"name": prologue_name(item.name)})
                    for item in dense.constants
                ),
            }
        )

    def group(self, group: GroupSpec, kind: str) -> GroupSpec:
        dense = group.spec
        num_blocks = dense.config["num_blocks"]
        assert isinstance(num_blocks, int)
        text = {"num_text_tokens": self.shape.dense.num_text_tokens} if kind == "single" else {}
        bound = tuple(item for item in dense.inputs if item.name == "valid_length")
        spec = dense.model_copy(
            update={
                "component": dense.component.replace("denoiser/", "denoiser/sparse-"),
                "builder": f"{BUILDERS}:build_{kind}_group",
                "sources": (*dense.sources, *SOURCES),
                "config": {**dense.config, **text},
                "inputs": (
                    *(item for item in dense.inputs if item.name != "valid_length"),
                    TensorSpec(name="slots", shape=(self.shape.num_edited_tokens,), dtype="int64"),
                    *self._state(num_blocks),
                    *bound,
                ),
            }
        )
        return replace(group, spec=spec)

    def _state(self, num_blocks: int) -> tuple[TensorSpec, ...]:
        width = self.config["num_attention_heads"] * self.config["attention_head_dim"]
        shape = (num_blocks, self.shape.num_drawn_tokens, width)
        dtype = activation_dtype(self.precision)
        return tuple(value(name, shape, dtype) for name in ("keys", "values"))

    def _key_rotary(self) -> tuple[TensorSpec, ...]:
        shape = (self.shape.dense.length, self.config["attention_head_dim"])
        return tuple(value(name, shape, "float32") for name in ("key_cos", "key_sin"))


def prologue_name(name: str) -> str:
    """Return the name in the sparse prologue's program of a constant of the dense one's."""
    return f"prologue.{name}"
