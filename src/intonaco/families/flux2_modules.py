"""FLUX.2 klein's components as modules over named tensors, and their loading.

Each wrapper is a module of its own, from plain tensors to one tensor, so it can be exported whole.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from torch import nn
from transformers import Qwen2Tokenizer, Qwen3ForCausalLM
from transformers.utils import logging as transformers_logging

from intonaco.errors import CheckpointError
from intonaco.families.base import Component, NamedTensors
from intonaco.families.checkpoint import Checkpoint, load_module
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_settings import (
    component_folders,
    flux2_config,
    flux2_defaults,
    max_sequence_length,
    out_layers,
)
from intonaco.families.prompt import ChatTokenizer


class PromptEncoder(nn.Module):
    """Hidden states of chosen layers of the text model, side by side: (B, T, layers * hidden)."""

    def __init__(self, language_model: nn.Module, out_layers: tuple[int, ...]) -> None:
        super().__init__()
        self.language_model = language_model
        self.out_layers = out_layers

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        output = self.language_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            output_hidden_states=True,
            use_cache=False,
        )
        chosen = [output.hidden_states[layer] for layer in self.out_layers]
        return torch.stack(chosen, dim=2).flatten(2)


class Denoiser(nn.Module):
    """The transformer without the arguments that klein leaves empty."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(
        self,
        hidden_states: torch.Tensor,
        timestep: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        img_ids: torch.Tensor,
        txt_ids: torch.Tensor,
    ) -> torch.Tensor:
        return self.transformer(
            hidden_states=hidden_states,
            timestep=timestep,
            encoder_hidden_states=encoder_hidden_states,
            img_ids=img_ids,
            txt_ids=txt_ids,
            return_dict=False,
        )[0]


class PictureEncoder(nn.Module):
    """Pixels (B, 3, H, W) in -1..1 to normalized latents (B, 4 * latent channels, Y, X)."""

    def __init__(self, autoencoder: Any) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        planes: torch.Tensor = self.autoencoder.encode(pixels, return_dict=False)[0].mode()
        batch, channels, height, width = planes.shape
        grid = planes.reshape(batch, channels, height // 2, 2, width // 2, 2)
        tokens = grid.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
        mean, deviation = _statistics(self.autoencoder, tokens)
        return (tokens - mean) / deviation


class PictureDecoder(nn.Module):
    """Normalized latents (B, 4 * latent channels, Y, X) to pixels (B, 3, H, W) in -1..1."""

    def __init__(self, autoencoder: Any) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        mean, deviation = _statistics(self.autoencoder, latents)
        batch, channels, rows, columns = latents.shape
        grid = (latents * deviation + mean).reshape(batch, channels // 4, 2, 2, rows, columns)
        planes = grid.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels // 4, 2 * rows, 2 * columns)
        return self.autoencoder.decode(planes, return_dict=False)[0]


def _statistics(autoencoder: Any, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and deviation of each token channel, (1, C, 1, 1), on the device of `like`."""
    normalization: Any = autoencoder.bn
    mean = normalization.running_mean.view(1, -1, 1, 1)
    variance = normalization.running_var.view(1, -1, 1, 1)
    deviation = torch.sqrt(variance + autoencoder.config["batch_norm_eps"])
    return mean.to(like.device, like.dtype), deviation.to(like.device, like.dtype)


@dataclass(frozen=True, slots=True)
class Eager:
    """A module as a component: run as it is, without gradients."""

    module: nn.Module

    def __call__(self, inputs: NamedTensors, /) -> torch.Tensor:
        with torch.no_grad():
            return self.module(**inputs)


def load_flux2(checkpoint: Checkpoint, *, dtype: torch.dtype, device: torch.device) -> Flux2Family:
    """Load every component of `checkpoint` as an eager module, or raise CheckpointError."""
    folders = component_folders(checkpoint)
    with _without_progress_bars():
        language_model = load_module(folders["text_encoder"], Qwen3ForCausalLM, dtype=dtype)
    transformer = load_module(folders["transformer"], Flux2Transformer2DModel, dtype=dtype)
    autoencoder: Any = load_module(folders["vae"], AutoencoderKLFlux2, dtype=dtype)
    modules: dict[str, nn.Module] = {
        "text_encoder": PromptEncoder(language_model, out_layers(checkpoint)),
        "denoiser": Denoiser(transformer),
        "encoder": PictureEncoder(autoencoder),
        "decoder": PictureDecoder(autoencoder),
    }
    components = {name: Eager(module.to(device)) for name, module in modules.items()}
    return assemble_flux2(checkpoint, components, dtype=dtype, device=device)


def assemble_flux2(
    checkpoint: Checkpoint,
    components: Mapping[str, Component],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Flux2Family:
    """Return the family over `components` (text_encoder, denoiser, encoder, decoder).

    Reads configurations, tokenizer and scheduler of `checkpoint`, and no weights.
    """
    folders = component_folders(checkpoint)
    scheduler = _load_plain(folders["scheduler"], FlowMatchEulerDiscreteScheduler)
    return Flux2Family(
        config=flux2_config(checkpoint),
        defaults=flux2_defaults(checkpoint),
        tokenizer=ChatTokenizer(
            _load_plain(folders["tokenizer"], Qwen2Tokenizer),
            max_sequence_length=max_sequence_length(checkpoint),
            vocabulary=checkpoint.settings.vocabulary,
        ),
        scheduler_settings=dict(scheduler.config),
        dtype=dtype,
        device=device,
        precision=str(dtype).removeprefix("torch."),
        text_encoder=components["text_encoder"],
        denoiser=components["denoiser"],
        encoder=components["encoder"],
        decoder=components["decoder"],
    )


def _load_plain(folder: Any, loaded_class: Any) -> Any:
    """Load a tokenizer or scheduler: small files, checked by the class that reads them."""
    try:
        return loaded_class.from_pretrained(folder)
    # These classes raise whatever their parsing meets, so the kinds cannot be listed.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{folder} cannot be loaded as {loaded_class.__name__} ({reason}); copy it again"
        ) from error


@contextmanager
def _without_progress_bars() -> Generator[None]:
    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()
