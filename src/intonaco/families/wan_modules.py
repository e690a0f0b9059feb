"""Wan 2.1's components as modules over named tensors, and their loading.

The decoder works in fixed chunks of one latent frame. What a causal convolution remembers of the
frames before is passed from chunk to chunk as explicit tensors, always two frames long, so that one
program serves every frame after the first, and films of every length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from torch import nn
from transformers import AutoTokenizer, UMT5EncoderModel

from intonaco.errors import CheckpointError, UnsupportedError
from intonaco.families.base import Component, Defaults, NamedTensors
from intonaco.families.checkpoint import Checkpoint, load_module, read_json
from intonaco.families.wan import WanConfig, WanFamily

WAN_DEFAULTS = Defaults(width=832, height=480, num_steps=50, num_frames=81)
WAN_MAX_SEQUENCE_LENGTH = 512
COMPONENT_CLASSES = {
    "scheduler": ("UniPCMultistepScheduler", "FlowMatchEulerDiscreteScheduler"),
    "text_encoder": ("UMT5EncoderModel",),
    "transformer": ("WanTransformer3DModel",),
    "vae": ("AutoencoderKLWan",),
}
MEMORY_FRAMES = 2


class WanPromptEncoder(nn.Module):
    """Hidden states of the text encoder (B, T, M), zero on padding."""

    def __init__(self, text_encoder: nn.Module) -> None:
        super().__init__()
        self.text_encoder = text_encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        output = self.text_encoder(input_ids, attention_mask)
        return output.last_hidden_state.masked_fill(attention_mask[..., None] == 0, 0.0)


class WanDenoiser(nn.Module):
    """The transformer without the arguments that text to video leaves empty."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(
        self,
        hidden_states: torch.Tensor,
        timestep: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
    ) -> torch.Tensor:
        return self.transformer(
            hidden_states=hidden_states,
            timestep=timestep,
            encoder_hidden_states=encoder_hidden_states,
            return_dict=False,
        )[0]


class FirstChunk(nn.Module):
    """The first latent frame (B, C, 1, Y, X) to one frame, and the memory for the next chunk."""

    def __init__(self, autoencoder: AutoencoderKLWan) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shapes = upsampler_memory(self.autoencoder, latents)
        memory: list[Any] = [None] * len(shapes)
        frames = _decode_chunk(self.autoencoder, latents, memory, is_first=True)
        # A temporal upsampler only notes that it has seen a frame; two zero frames, with which its
        # convolution would be padded, say the same.
        filled = [
            _two_frames(item) if shape is None else latents.new_zeros(shape)
            for item, shape in zip(memory, shapes, strict=True)
        ]
        return (frames, *filled)


class NextChunk(nn.Module):
    """A later latent frame and the memory to four frames, and the memory for the next chunk."""

    def __init__(self, autoencoder: AutoencoderKLWan) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents: torch.Tensor, *memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        changed: list[Any] = list(memory)
        frames = _decode_chunk(self.autoencoder, latents, changed, is_first=False)
        return (frames, *(item.contiguous() for item in changed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedDecoder:
    """Decodes a film one latent frame at a time, by two functions of tensors."""

    first: Any
    following: Any

    def __call__(self, inputs: NamedTensors, /) -> torch.Tensor:
        """Return frames (B, 3, 1 + 4 * (F - 1), 8Y, 8X) of latents (B, C, F, Y, X)."""
        latents = inputs["latents"]
        with torch.no_grad():
            frames, *memory = self.first(latents[:, :, :1].contiguous())
            chunks = [frames]
            for index in range(1, latents.shape[2]):
                chunk = latents[:, :, index : index + 1].contiguous()
                frames, *memory = self.following(chunk, *memory)
                chunks.append(frames)
        return torch.cat(chunks, dim=2)


@dataclass(frozen=True, slots=True)
class Eager:
    """A module as a component: run as it is, without gradients."""

    module: nn.Module

    def __call__(self, inputs: NamedTensors, /) -> torch.Tensor:
        with torch.no_grad():
            return self.module(**inputs)


def load_wan(checkpoint: Checkpoint, *, dtype: torch.dtype, device: torch.device) -> WanFamily:
    """Load every component of `checkpoint` as an eager module, or raise CheckpointError."""
    folders = _component_folders(checkpoint)
    text_encoder = load_module(folders["text_encoder"], UMT5EncoderModel, dtype=dtype)
    transformer = load_module(folders["transformer"], WanTransformer3DModel, dtype=dtype)
    autoencoder: Any = load_module(folders["vae"], AutoencoderKLWan, dtype=dtype).to(device)
    components: dict[str, Component] = {
        "text_encoder": Eager(WanPromptEncoder(text_encoder).to(device)),
        "denoiser": Eager(WanDenoiser(transformer).to(device)),
        "decoder": ChunkedDecoder(first=FirstChunk(autoencoder), following=NextChunk(autoencoder)),
    }
    return assemble_wan(checkpoint, components, dtype=dtype, device=device)


def assemble_wan(
    checkpoint: Checkpoint,
    components: Mapping[str, Component],
    *,
    dtype: torch.dtype,
    device: torch.device,
    backend: str = "eager",
) -> WanFamily:
    """Return the family over `components` (text_encoder, denoiser, decoder).

    Reads configurations, tokenizer and scheduler of `checkpoint`, and no weights.
    """
    folders = _component_folders(checkpoint)
    settings = checkpoint.settings
    autoencoder = read_json(folders["vae"] / "config.json")
    _check_autoencoder(folders["vae"], autoencoder)
    scheduler_class: Any = getattr(diffusers, checkpoint.components["scheduler"])
    scheduler_settings = dict(scheduler_class.load_config(folders["scheduler"]))
    return WanFamily(
        config=WanConfig(
            latents_mean=tuple(autoencoder["latents_mean"]),
            latents_std=tuple(autoencoder["latents_std"]),
            frames_per_latent=autoencoder["scale_factor_temporal"],
            pixels_per_latent=autoencoder["scale_factor_spatial"],
            patch_side=read_json(folders["transformer"] / "config.json")["patch_size"][1],
            max_sequence_length=settings.max_sequence_length or WAN_MAX_SEQUENCE_LENGTH,
        ),
        defaults=Defaults(
            width=settings.default_width or WAN_DEFAULTS.width,
            height=settings.default_height or WAN_DEFAULTS.height,
            num_steps=settings.default_num_steps or WAN_DEFAULTS.num_steps,
            num_frames=WAN_DEFAULTS.num_frames,
        ),
        tokenizer=_load_tokenizer(folders["tokenizer"]),
        new_scheduler=lambda: scheduler_class.from_config(scheduler_settings),
        dtype=dtype,
        device=device,
        backend=backend,
        **components,
    )


def _component_folders(checkpoint: Checkpoint) -> dict[str, Path]:
    folders = {
        name: checkpoint.component_folder(name, class_names)
        for name, class_names in COMPONENT_CLASSES.items()
    }
    # Tokenizer classes have changed their names; the files say what they are.
    return {**folders, "tokenizer": checkpoint.folder / "tokenizer"}


def _check_autoencoder(folder: Path, config: Mapping[str, Any]) -> None:
    if config.get("is_residual") or config.get("patch_size"):
        raise UnsupportedError(
            f"{folder} is the autoencoder of Wan 2.2, which is not supported; use Wan 2.1"
        )


def _load_tokenizer(folder: Path) -> Any:
    loader: Any = AutoTokenizer
    try:
        return loader.from_pretrained(folder)
    # The class raises whatever its parsing meets, so the kinds cannot be listed.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{folder} cannot be loaded as a tokenizer ({reason}); copy it again"
        ) from error


def upsampler_memory(
    autoencoder: AutoencoderKLWan, latents: torch.Tensor
) -> list[tuple[int, ...] | None]:
    """Return, for each memory of the decoder in order, its shape if a temporal upsampler holds it."""
    decoder: Any = autoencoder.decoder
    batch, _, _, rows, columns = latents.shape
    memory: list[tuple[int, ...] | None] = [None]  # conv_in
    memory += [None] * (2 * len(decoder.mid_block.resnets))
    for block in decoder.up_blocks:
        memory += [None] * (2 * len(block.resnets))
        for upsampler in block.upsamplers or ():
            if upsampler.mode == "upsample3d":
                memory.append((batch, upsampler.dim, MEMORY_FRAMES, rows, columns))
            rows, columns = 2 * rows, 2 * columns
    return [*memory, None]  # conv_out


def _decode_chunk(
    autoencoder: AutoencoderKLWan, latents: torch.Tensor, memory: list[Any], *, is_first: bool
) -> torch.Tensor:
    """Decode one latent frame; entries of `memory` are replaced in place."""
    decoder: Any = autoencoder.decoder
    hidden = autoencoder.post_quant_conv(latents)
    frames = decoder(hidden, feat_cache=memory, feat_idx=[0], first_chunk=is_first)
    return frames.clamp(-1.0, 1.0)


def _two_frames(memory: torch.Tensor) -> torch.Tensor:
    """Return `memory` with a zero frame before it, as the convolution would pad it."""
    missing = MEMORY_FRAMES - memory.shape[2]
    return nn.functional.pad(memory, (0, 0, 0, 0, missing, 0))
