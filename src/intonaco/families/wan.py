"""Wan 2.1 text to video: a request to planes of latents over time, and back to frames.

Draws what diffusers' `WanPipeline` draws. Guidance is true guidance: two branches, the second from
the negative prompt. The text encoder masks its padding; the denoiser then reads zeros in its place,
as the reference does, so the padded length is part of the function.

Shape letters: B batch (1), C latent channels, F latent frames, Y x X rows and columns of a latent
plane, T text tokens, M text dim. A film has 1 + 4 * (F - 1) frames of 8Y x 8X pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image

from intonaco.errors import PromptTooLongError, RequestError
from intonaco.families.base import (
    Component,
    Defaults,
    NamedTensors,
    Prepared,
    guide_branches,
)
from intonaco.families.film_prompt import clean_prompt
from intonaco.families.noise import draw_noise
from intonaco.families.request import GenerateRequest
from intonaco.families.schedule import Schedule

DEFAULT_GUIDANCE_SCALE = 5.0
MAX_FILM_PIXELS = 1280 * 720 * 161


@dataclass(frozen=True, slots=True, kw_only=True)
class WanConfig:
    """What the host needs to know of a checkpoint besides its components.

    Attributes:
        latents_mean, latents_std: statistics of each latent channel.
        frames_per_latent: frames that one latent frame after the first stands for.
        pixels_per_latent: side of the square of pixels that one latent position stands for.
        patch_side: latent positions a side of one denoiser token.
        max_sequence_length: T, the padded prompt length.
    """

    latents_mean: tuple[float, ...]
    latents_std: tuple[float, ...]
    frames_per_latent: int
    pixels_per_latent: int
    patch_side: int
    max_sequence_length: int


@dataclass(frozen=True, kw_only=True)
class WanFamily:
    """A loaded Wan 2.1 model; see `intonaco.families.base.Family` for the contract.

    Components, each from named tensors to one tensor:
        text_encoder: input_ids, attention_mask (B, T) int64 -> (B, T, M), zero on padding.
        denoiser: hidden_states (B, C, F, Y, X), timestep (B,), encoder_hidden_states (B, T, M) ->
            (B, C, F, Y, X).
        decoder: latents (B, C, F, Y, X), as the autoencoder wants them -> frames
            (B, 3, 1 + 4 * (F - 1), 8Y, 8X) in -1..1.

    `new_scheduler` returns a fresh diffusers scheduler; `tokenizer` is transformers'.
    """

    config: WanConfig
    defaults: Defaults
    tokenizer: Any
    new_scheduler: Callable[[], Any]
    text_encoder: Component
    denoiser: Component
    decoder: Component
    dtype: torch.dtype
    device: torch.device
    backend: str = "eager"

    @property
    def name(self) -> str:
        return "wan"

    @property
    def precision(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def with_components(self, **components: Component) -> "WanFamily":
        """Return this family with some of its three components replaced."""
        return replace(self, **components)

    # Before the steps

    def check(self, request: GenerateRequest) -> tuple[str, ...]:
        self._check_size(request)
        self._check_frames(request)
        if request.references:
            raise RequestError(
                f"references must be empty for {self.name}, got {len(request.references)}; it draws "
                "films from words alone"
            )
        self._tokenize("prompt", request.prompt)
        self._tokenize("negative_prompt", request.negative_prompt or "")
        if request.negative_prompt and not _has_guidance(request):
            return ("negative_prompt has no effect: guidance_scale <= 1",)
        return ()

    def encode(self, request: GenerateRequest) -> tuple[NamedTensors, ...]:
        prompts = {"prompt": request.prompt}
        if _has_guidance(request):
            prompts["negative_prompt"] = request.negative_prompt or ""
        return tuple(self._encode_prompt(name, text) for name, text in prompts.items())

    def prepare(self, request: GenerateRequest, conditioning: tuple[NamedTensors, ...]) -> Prepared:
        shape = (
            1,
            len(self.config.latents_mean),
            (request.num_frames - 1) // self.config.frames_per_latent + 1,
            request.height // self.config.pixels_per_latent,
            request.width // self.config.pixels_per_latent,
        )
        # Latents stay float32 through all steps; only the denoiser's input is rounded.
        noise_BCFYX = draw_noise(shape, seed=request.seed, image_index=request.image_index)
        scheduler = self.new_scheduler()
        scheduler.set_timesteps(request.num_steps, device=self.device)
        return Prepared(
            latents=noise_BCFYX.to(self.device),
            noise=noise_BCFYX.to(self.device),
            branches=conditioning,
            guidance_scale=guidance_scale(request) if len(conditioning) > 1 else 1.0,
            schedule=Schedule(scheduler),
            width=request.width,
            height=request.height,
            num_frames=request.num_frames,
        )

    # At each step

    def denoise(
        self, prepared: Prepared, latents: torch.Tensor, step: int
    ) -> tuple[torch.Tensor, ...]:
        timestep_B = prepared.schedule.timesteps[step].expand(1)
        return tuple(
            self.denoiser(
                {
                    "hidden_states": latents.to(self.dtype),
                    "timestep": timestep_B,
                    "encoder_hidden_states": branch["encoder_hidden_states"],
                }
            )
            for branch in prepared.branches
        )

    def guide(self, prepared: Prepared, predictions: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return guide_branches(predictions, prepared.guidance_scale)

    # After the steps

    def decode(self, prepared: Prepared, latents: torch.Tensor) -> tuple[Image.Image, ...]:
        frames_BCFHW = self.decoder({"latents": self._denormalize(latents.to(self.dtype))})
        pixels_FHWC = (frames_BCFHW[0] / 2 + 0.5).clamp(0, 1).permute(1, 2, 3, 0)
        bytes_FHWC = (pixels_FHWC.cpu().float().numpy() * 255).round().astype(np.uint8)
        return tuple(Image.fromarray(frame_HWC) for frame_HWC in bytes_FHWC)

    # Parts

    def _denormalize(self, latents_BCFYX: torch.Tensor) -> torch.Tensor:
        mean, deviation = (
            torch.tensor(values).view(1, -1, 1, 1, 1).to(latents_BCFYX.device, latents_BCFYX.dtype)
            for values in (self.config.latents_mean, self.config.latents_std)
        )
        # Divided by the inverse, not multiplied: so the reference rounds.
        return latents_BCFYX / (1.0 / deviation) + mean

    def _check_size(self, request: GenerateRequest) -> None:
        multiple = self.config.pixels_per_latent * self.config.patch_side
        for setting, side in (("width", request.width), ("height", request.height)):
            if side % multiple:
                nearest = max(multiple, round(side / multiple) * multiple)
                raise RequestError(
                    f"{setting} must be a multiple of {multiple}, got {side}; the nearest that works "
                    f"is {nearest}"
                )
        num_pixels = request.width * request.height * request.num_frames
        if num_pixels > MAX_FILM_PIXELS:
            raise RequestError(
                f"width x height x num_frames must be at most {MAX_FILM_PIXELS}, got {num_pixels}; "
                "draw fewer or smaller frames"
            )

    def _check_frames(self, request: GenerateRequest) -> None:
        step = self.config.frames_per_latent
        if request.num_frames % step != 1:
            nearest = max(0, round((request.num_frames - 1) / step)) * step + 1
            raise RequestError(
                f"num_frames must be 1 + a multiple of {step}, got {request.num_frames}; the nearest "
                f"that works is {nearest}"
            )

    def _tokenize(self, setting: str, prompt: str) -> NamedTensors:
        """Return input_ids and attention_mask (1, T). Raises PromptTooLongError."""
        encoded = self.tokenizer(
            clean_prompt(prompt),
            padding="max_length",
            max_length=self.config.max_sequence_length,
            add_special_tokens=True,
            return_attention_mask=True,
            return_tensors="pt",
        )
        num_tokens = encoded["input_ids"].shape[1]
        if num_tokens > self.config.max_sequence_length:
            raise PromptTooLongError(
                f"{setting} must have at most {self.config.max_sequence_length} tokens, got "
                f"{num_tokens}; shorten it"
            )
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    def _encode_prompt(self, setting: str, prompt: str) -> NamedTensors:
        tokens = self._tokenize(setting, prompt)
        embeddings_BTM = self.text_encoder(
            {name: tensor.to(self.device) for name, tensor in tokens.items()}
        )
        return {"encoder_hidden_states": embeddings_BTM.to(self.dtype)}


def guidance_scale(request: GenerateRequest) -> float:
    """Return the weight of the branches' difference."""
    return DEFAULT_GUIDANCE_SCALE if request.guidance_scale is None else request.guidance_scale


def _has_guidance(request: GenerateRequest) -> bool:
    return guidance_scale(request) > 1
