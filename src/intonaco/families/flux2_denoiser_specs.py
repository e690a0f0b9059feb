"""The programs of FLUX.2 klein's denoiser, as specs: prologue, block groups, epilogue.

A pure function of the checkpoint's configuration, its tensors' shapes and the shapes of a request.
Imports neither torch nor a model class.

Shape letters: I image tokens (those of references included), T text tokens, L = T + I, M model dim,
C channels of a token, D head dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intonaco.backends.spec import DtypeName, Precision, ProgramSpec, TensorSpec
from intonaco.families.flux2_shapes import DenoiserShape
from intonaco.families.flux2_specs import BUILDERS, SOURCES, activation_dtype
from intonaco.programs.groups import (
    GroupSpec,
    blocks_per_call,
    group_constants,
    plain,
    split_blocks,
    value,
)
from intonaco.programs.presharding import Header

BOUNDED_BUILDERS = "intonaco.families.flux2_bounded"
BOUNDED_SOURCES = (BUILDERS, "intonaco.attention.joint")


@dataclass(frozen=True, slots=True)
class DenoiserSpecs:
    """The denoiser as a chain: prologue, double-stream groups, single-stream groups, epilogue."""

    prologue: ProgramSpec
    double: tuple[GroupSpec, ...]
    single: tuple[GroupSpec, ...]
    epilogue: ProgramSpec

    @property
    def all(self) -> tuple[ProgramSpec, ...]:
        """Every program in the order of calls; groups of one kind have equal specs."""
        groups = (group.spec for group in (*self.double, *self.single))
        return (self.prologue, *groups, self.epilogue)


def denoiser_specs(
    config: Mapping[str, Any],
    header: Header,
    shape: DenoiserShape,
    *,
    precision: Precision = "float32",
    group_size: int | None = None,
) -> DenoiserSpecs:
    """Return the denoiser's programs; `group_size` None chooses one by `default_group_size`."""
    if group_size is None:
        group_size = default_group_size(config, shape, precision)
    plan = _Plan(dict(config), header, shape, precision)
    return DenoiserSpecs(
        prologue=plan.prologue(),
        double=plan.groups("transformer_blocks", config["num_layers"], group_size),
        single=plan.groups("single_transformer_blocks", config["num_single_layers"], group_size),
        epilogue=plan.epilogue(),
    )


def default_group_size(
    config: Mapping[str, Any], shape: DenoiserShape, precision: str = "float32"
) -> int:
    """Return how many blocks one call may hold.

    Counts multiplications of the linear layers and of attention for a single-stream block; a
    double-stream block does as many.
    """
    model_dim = config["num_attention_heads"] * config["attention_head_dim"]
    linear = model_dim * model_dim * (4 + 3 * config["mlp_ratio"])
    attention = 2 * shape.length * model_dim
    return blocks_per_call(2 * shape.length * (linear + attention), activation_dtype(precision))


@dataclass(frozen=True, slots=True)
class _Plan:
    config: dict[str, Any]
    header: Header
    shape: DenoiserShape
    precision: Precision

    @property
    def dtype(self) -> DtypeName:
        return activation_dtype(self.precision)

    @property
    def model_dim(self) -> int:
        return self.config["num_attention_heads"] * self.config["attention_head_dim"]

    def prologue(self) -> ProgramSpec:
        image, text = self.shape.num_image_tokens, self.shape.num_text_tokens
        return self._spec(
            "prologue",
            config=self._edge_config(),
            inputs=(
                self._tensor("hidden_states", image, self.config["in_channels"]),
                value("timestep", (1,), self.dtype),
                self._tensor("encoder_hidden_states", text, self.config["joint_attention_dim"]),
                TensorSpec(name="img_ids", shape=(1, image, 4), dtype="int64"),
                TensorSpec(name="txt_ids", shape=(1, text, 4), dtype="int64"),
            ),
            outputs=(
                self._tensor("hidden", image, self.model_dim),
                self._tensor("context", text, self.model_dim),
                value("temb", (1, self.model_dim), self.dtype),
                *self._modulation("mod_image", 6),
                *self._modulation("mod_text", 6),
                *self._modulation("mod_single", 3),
                *self._rotary(),
            ),
            constants=self.header.under(
                "x_embedder.", "context_embedder.", "time_guidance_embed.",
                "double_stream_modulation_img.", "double_stream_modulation_txt.",
                "single_stream_modulation.",
            ),
        )  # fmt: skip

    def epilogue(self) -> ProgramSpec:
        return self._spec(
            "epilogue",
            config={**self._edge_config(), "num_text_tokens": self.shape.num_text_tokens},
            inputs=(
                self._tensor("joint", self.shape.length, self.model_dim),
                value("temb", (1, self.model_dim), self.dtype),
            ),
            outputs=(
                self._tensor("prediction", self.shape.num_image_tokens, self.config["in_channels"]),
            ),
            constants=self.header.under("norm_out.", "proj_out."),
        )

    def groups(self, stack: str, num_blocks: int, group_size: int) -> tuple[GroupSpec, ...]:
        groups: list[GroupSpec] = []
        first_block = 0
        for size in split_blocks(num_blocks, group_size):
            groups.append(GroupSpec(self._group(stack, first_block, size), first_block, stack))
            first_block += size
        return tuple(groups)

    def _group(self, stack: str, first_block: int, size: int) -> ProgramSpec:
        is_double = stack == "transformer_blocks"
        streams = (
            self._tensor("hidden", self.shape.num_image_tokens, self.model_dim),
            self._tensor("context", self.shape.num_text_tokens, self.model_dim),
        )
        joint = (self._tensor("joint", self.shape.length, self.model_dim),)
        modulation = (
            (*self._modulation("mod_image", 6), *self._modulation("mod_text", 6))
            if is_double
            else self._modulation("mod_single", 3)
        )
        kind = "double" if is_double else "single"
        bounded = self.shape.is_bounded
        return self._spec(
            f"{kind}[{size}]{'/bounded' if bounded else ''}",
            builder=f"{BOUNDED_BUILDERS if bounded else BUILDERS}:build_{kind}_group",
            sources=(*SOURCES, *BOUNDED_SOURCES) if bounded else SOURCES,
            config={
                **{name: self.config[name] for name in BLOCK_KEYS},
                "num_blocks": size,
            },
            inputs=(
                *(streams if is_double else joint),
                *modulation,
                *self._rotary(),
                *self._bound(),
            ),
            outputs=streams if is_double else joint,
            constants=group_constants(self.header, stack, first_block, size),
        )

    def _spec(
        self,
        piece: str,
        *,
        builder: str | None = None,
        sources: tuple[str, ...] = SOURCES,
        **fields: Any,
    ) -> ProgramSpec:
        return ProgramSpec(
            component=f"denoiser/{piece}",
            builder=builder or f"{BUILDERS}:build_{piece}",
            precision=self.precision,
            sources=sources,
            libraries=("diffusers",),
            **fields,
        )

    def _edge_config(self) -> dict[str, Any]:
        # The edges have no blocks; their number must not enter the key.
        edge = {name: plain(self.config[name]) for name in EDGE_KEYS if name in self.config}
        return {"transformer_config": {**edge, "num_layers": 0, "num_single_layers": 0}}

    def _tensor(self, name: str, length: int, width: int) -> TensorSpec:
        return value(name, (1, length, width), self.dtype)

    def _modulation(self, name: str, num_parts: int) -> tuple[TensorSpec, ...]:
        return (value(name, (1, num_parts * self.model_dim), self.dtype),)

    def _bound(self) -> tuple[TensorSpec, ...]:
        """The number of keys that are not padding, where there may be some."""
        if not self.shape.is_bounded:
            return ()
        return (TensorSpec(name="valid_length", shape=(), dtype="int64"),)

    def _rotary(self) -> tuple[TensorSpec, ...]:
        shape = (self.shape.length, self.config["attention_head_dim"])
        return tuple(value(name, shape, "float32") for name in ("rotary_cos", "rotary_sin"))


BLOCK_KEYS = ("num_attention_heads", "attention_head_dim", "mlp_ratio", "eps")
EDGE_KEYS = (
    "patch_size", "in_channels", "out_channels", "attention_head_dim", "num_attention_heads",
    "joint_attention_dim", "timestep_guidance_channels", "mlp_ratio", "axes_dims_rope",
    "rope_theta", "eps", "guidance_embeds",
)  # fmt: skip
