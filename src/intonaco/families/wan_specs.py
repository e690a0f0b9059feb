"""The programs of Wan 2.1, as specs: text encoder, denoiser in pieces, the decoder's two chunks.

A pure function of the checkpoint's configuration, its tensors' shapes and the shapes of a request.
Imports neither torch nor a model class.

Shape letters: F latent frames, Y x X rows and columns of a latent plane, L tokens of the denoiser
(patches of all frames), T text tokens, M model dim, D head dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from intonaco.backends.spec import ProgramSpec, TensorSpec
from intonaco.programs.groups import (
    GroupSpec,
    blocks_per_call,
    group_constants,
    plain,
    split_blocks,
    value,
)
from intonaco.programs.presharding import Header

BUILDERS = "intonaco.families.wan_builders"
SOURCES = ("intonaco.families.wan_modules",)
STACK = "blocks"
MEMORY_FRAMES = 2
FRAMES_PER_CHUNK = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmShape:
    """The sizes that a denoiser program is compiled for."""

    num_frames: int
    rows: int
    columns: int
    num_text_tokens: int


@dataclass(frozen=True, slots=True)
class WanDenoiserSpecs:
    """The denoiser as a chain: prologue, block groups, epilogue."""

    prologue: ProgramSpec
    groups: tuple[GroupSpec, ...]
    epilogue: ProgramSpec

    @property
    def all(self) -> tuple[ProgramSpec, ...]:
        """Every program in the order of calls."""
        return (self.prologue, *(group.spec for group in self.groups), self.epilogue)


def wan_text_encoder_spec(
    config: Mapping[str, Any], header: Header, *, num_text_tokens: int
) -> ProgramSpec:
    """Return the text encoder's program: ids and mask (1, T) to embeddings (1, T, M)."""
    tokens = (1, num_text_tokens)
    return ProgramSpec(
        component="text_encoder",
        builder=f"{BUILDERS}:build_text_encoder",
        config={"text_config": plain(config)},
        inputs=(value("input_ids", tokens, "int64"), value("attention_mask", tokens, "int64")),
        outputs=(value("embeddings", (*tokens, config["d_model"]), "float32"),),
        constants=header.under(""),
        sources=SOURCES,
        libraries=("transformers", "diffusers"),
    )


def wan_denoiser_specs(
    config: Mapping[str, Any], header: Header, shape: FilmShape, *, group_size: int | None = None
) -> WanDenoiserSpecs:
    """Return the denoiser's programs; `group_size` None bounds the length of one call."""
    plan = _Plan(dict(config), header, shape)
    num_blocks = config["num_layers"]
    size = plan.default_group_size() if group_size is None else group_size
    groups: list[GroupSpec] = []
    first_block = 0
    for count in split_blocks(num_blocks, size):
        groups.append(GroupSpec(plan.group(first_block, count), first_block, STACK))
        first_block += count
    return WanDenoiserSpecs(plan.prologue(), tuple(groups), plan.epilogue())


def first_chunk_spec(
    config: Mapping[str, Any], header: Header, *, rows: int, columns: int
) -> ProgramSpec:
    """Return the decoder's program for the first latent frame: one frame, and the memory."""
    latents, frames, memory = _chunk_tensors(config, rows, columns, num_frames=1)
    return _decoder_spec("first", config, header, (latents,), (frames, *memory))


def next_chunk_spec(
    config: Mapping[str, Any], header: Header, *, rows: int, columns: int
) -> ProgramSpec:
    """Return the decoder's program for every later latent frame: four frames, memory in and out."""
    latents, frames, memory = _chunk_tensors(config, rows, columns, num_frames=FRAMES_PER_CHUNK)
    return _decoder_spec("next", config, header, (latents, *memory), (frames, *memory))


def memory_shapes(
    config: Mapping[str, Any], rows: int, columns: int
) -> tuple[tuple[int, int, int, int, int], ...]:
    """Return the shape of what each causal convolution of the decoder remembers, in order."""
    multipliers: list[int] = list(config["dim_mult"])
    base = config.get("decoder_base_dim") or config["base_dim"]
    widths = [base * multiplier for multiplier in [multipliers[-1], *reversed(multipliers)]]
    upsamples_time: list[bool] = list(reversed(config["temperal_downsample"]))
    channels = [config["z_dim"], *[widths[0]] * 4]  # conv_in, then two blocks of two
    sizes = [(rows, columns)] * len(channels)
    for index, (before, after) in enumerate(pairwise(widths)):
        # The upsampler of the block before has halved the channels.
        entering = before // 2 if index else before
        block = [entering, after, *[after] * (2 * config["num_res_blocks"])]
        is_last = index == len(multipliers) - 1
        if not is_last and upsamples_time[index]:
            block.append(after)
        channels += block
        sizes += [(rows, columns)] * len(block)
        if not is_last:
            rows, columns = 2 * rows, 2 * columns
    channels.append(widths[-1])  # conv_out
    sizes.append((rows, columns))
    return tuple(
        (1, width, MEMORY_FRAMES, y, x) for width, (y, x) in zip(channels, sizes, strict=True)
    )


def _chunk_tensors(
    config: Mapping[str, Any], rows: int, columns: int, *, num_frames: int
) -> tuple[TensorSpec, TensorSpec, tuple[TensorSpec, ...]]:
    shapes = memory_shapes(config, rows, columns)
    height, width = shapes[-1][3:]
    return (
        value("latents", (1, config["z_dim"], 1, rows, columns), "float32"),
        value("frames", (1, config.get("out_channels", 3), num_frames, height, width), "float32"),
        tuple(value(f"memory_{index}", shape, "float32") for index, shape in enumerate(shapes)),
    )


def _decoder_spec(
    chunk: str,
    config: Mapping[str, Any],
    header: Header,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
) -> ProgramSpec:
    return ProgramSpec(
        component=f"decoder/{chunk}",
        builder=f"{BUILDERS}:build_{chunk}_chunk",
        config={"autoencoder_config": plain(config)},
        inputs=inputs,
        outputs=outputs,
        constants=header.under(""),
        sources=SOURCES,
        libraries=("diffusers",),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    config: dict[str, Any]
    header: Header
    shape: FilmShape

    @property
    def model_dim(self) -> int:
        return self.config["num_attention_heads"] * self.config["attention_head_dim"]

    @property
    def num_tokens(self) -> int:
        frames, rows, columns = self.config["patch_size"]
        shape = self.shape
        return (shape.num_frames // frames) * (shape.rows // rows) * (shape.columns // columns)

    def default_group_size(self) -> int:
        linear = self.model_dim * (6 * self.model_dim + 2 * self.config["ffn_dim"])
        attention = 2 * self.model_dim * (self.num_tokens + self.shape.num_text_tokens)
        return blocks_per_call(2 * self.num_tokens * (linear + attention), "float32")

    def prologue(self) -> ProgramSpec:
        return self._spec(
            "prologue",
            config=self._edge_config(),
            inputs=(
                self._latents("hidden_states", self.config["in_channels"]),
                value("timestep", (1,), "float32"),
                value(
                    "encoder_hidden_states",
                    (1, self.shape.num_text_tokens, self.config["text_dim"]),
                    "float32",
                ),
            ),
            outputs=(*self._streams(), value("temb", (1, self.model_dim), "float32")),
            constants=self.header.under("patch_embedding.", "condition_embedder.", "rope."),
        )

    def group(self, first_block: int, size: int) -> ProgramSpec:
        names = (
            "ffn_dim",
            "num_attention_heads",
            "attention_head_dim",
            "qk_norm",
            "cross_attn_norm",
            "eps",
        )
        return self._spec(
            f"blocks[{size}]",
            function="block_group",
            config={**{name: self.config[name] for name in names}, "num_blocks": size},
            inputs=self._streams(),
            outputs=self._streams()[:1],
            constants=group_constants(self.header, STACK, first_block, size),
        )

    def epilogue(self) -> ProgramSpec:
        shape = self.shape
        return self._spec(
            "epilogue",
            config={
                **self._edge_config(),
                "latent_shape": [shape.num_frames, shape.rows, shape.columns],
            },
            inputs=(self._streams()[0], value("temb", (1, self.model_dim), "float32")),
            outputs=(self._latents("prediction", self.config["out_channels"]),),
            constants=self.header.under("proj_out.", "scale_shift_table"),
        )

    def _streams(self) -> tuple[TensorSpec, ...]:
        """What every block group reads: tokens, text, modulation, rotary tables."""
        tokens, text = self.num_tokens, self.shape.num_text_tokens
        rotary = (1, tokens, 1, self.config["attention_head_dim"])
        return (
            value("hidden", (1, tokens, self.model_dim), "float32"),
            value("context", (1, text, self.model_dim), "float32"),
            value("modulation", (1, 6, self.model_dim), "float32"),
            value("rotary_cos", rotary, "float32"),
            value("rotary_sin", rotary, "float32"),
        )

    def _latents(self, name: str, channels: int) -> TensorSpec:
        shape = self.shape
        return value(name, (1, channels, shape.num_frames, shape.rows, shape.columns), "float32")

    def _edge_config(self) -> dict[str, Any]:
        # The edges have no blocks; their number must not enter the key.
        return {"transformer_config": {**plain(self.config), "num_layers": 0}}

    def _spec(self, piece: str, *, function: str | None = None, **fields: Any) -> ProgramSpec:
        return ProgramSpec(
            component=f"denoiser/{piece}",
            builder=f"{BUILDERS}:build_{function or piece}",
            sources=SOURCES,
            libraries=("diffusers",),
            **fields,
        )
