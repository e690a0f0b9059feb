"""FLUX.2 klein: a request to packed tokens of 16x16 pixels and back to a picture.

Draws what diffusers' `Flux2KleinPipeline` draws, byte for byte in float32 on eager modules. The
model attends to the text encoder's padding, so the padded length is part of the function.

Shape letters: B batch (1), I image tokens, R reference tokens, T text tokens, C channels of a token,
Y x X rows and columns of tokens (I = Y * X). Positions are (time, row, column, text index).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image, Resampling, fromarray

from intonaco.errors import PictureError, RequestError
from intonaco.families.base import (
    Component,
    Defaults,
    NamedTensors,
    Prepared,
    StepComponent,
    guide_branches,
)
from intonaco.families.euler import PlainEuler, is_plain
from intonaco.families.noise import draw_noise
from intonaco.families.prompt import ChatTokenizer
from intonaco.families.request import GenerateRequest
from intonaco.families.schedule import Schedule

MIN_SIDE_PIXELS = 64
MAX_PICTURE_PIXELS = 2048 * 2048
MAX_REFERENCE_PIXELS = 1024 * 1024
MAX_REFERENCE_ASPECT = 8
REFERENCE_TIME_STEP = 10
DEFAULT_GUIDANCE_SCALE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flux2Config:
    """What the host needs to know of a checkpoint besides its components.

    Attributes:
        token_channels: C, channels of one token.
        token_pixels: side of the square of pixels that one token stands for.
    """

    token_channels: int
    token_pixels: int
    is_distilled: bool
    checks_vocabulary: bool


@dataclass(frozen=True, kw_only=True)
class Flux2Family:
    """A loaded FLUX.2 klein model; see `intonaco.families.base.Family` for the contract.

    Components, each from named tensors to one tensor:
        text_encoder: input_ids, attention_mask (B, T) int64 -> (B, T, M), M = layers * hidden.
        denoiser: hidden_states (B, I + R, C), timestep (B,), encoder_hidden_states (B, T, M),
            img_ids (B, I + R, 4), txt_ids (B, T, 4) -> (B, I + R, C).
        encoder: pixels (B, 3, H, W) in -1..1 -> normalized latents (B, C, Y, X).
        decoder: latents (B, C, Y, X), normalized -> pixels (B, 3, H, W) in -1..1.
        step_denoiser: called in the denoiser's place, where there is one: same inputs, and the step.
    """

    config: Flux2Config
    defaults: Defaults
    tokenizer: ChatTokenizer
    scheduler_settings: Mapping[str, Any]
    text_encoder: Component
    denoiser: Component
    encoder: Component
    decoder: Component
    dtype: torch.dtype
    device: torch.device
    backend: str = "eager"
    precision: str = "float32"
    step_denoiser: StepComponent | None = None

    @property
    def name(self) -> str:
        return "flux2"

    @property
    def token_pixels(self) -> int:
        return self.config.token_pixels

    def with_components(self, **components: Component) -> "Flux2Family":
        """Return this family with some of its four components replaced."""
        if "denoiser" in components:
            return replace(self, **components, step_denoiser=None)
        return replace(self, **components)

    # Before the steps

    def check(self, request: GenerateRequest) -> tuple[str, ...]:
        check_size(request.width, request.height, multiple=self.token_pixels)
        if request.num_frames != 1:
            raise RequestError(
                f"num_frames must be 1 for {self.name}, got {request.num_frames}; it draws pictures"
            )
        for index, reference in enumerate(request.references):
            check_reference(reference, f"references[{index}]")
        if self.step_denoiser is not None and self._scale(request) > 1:
            raise RequestError(
                f"guidance_scale must be at most 1 with template state, got {self._scale(request):g}; "
                "a template holds the state of one branch"
            )
        self.tokenizer.tokenize(request.prompt)
        if request.negative_prompt is not None:
            self.tokenizer.tokenize(request.negative_prompt)
        return (*self._warn_of_words(request), *self._warn_of_guidance(request))

    def encode(self, request: GenerateRequest) -> tuple[NamedTensors, ...]:
        prompts = [request.prompt]
        if self._scale(request) > 1:
            prompts.append(request.negative_prompt or "")
        return tuple(self._encode_prompt(prompt) for prompt in prompts)

    def prepare(self, request: GenerateRequest, conditioning: tuple[NamedTensors, ...]) -> Prepared:
        rows, columns = self._grid(request)
        noise_BIC = self.draw_noise(request)
        shared = self._image_inputs(request, rows, columns)
        return Prepared(
            # The schedule starts at sigma 1: pure noise.
            latents=noise_BIC,
            noise=noise_BIC,
            branches=tuple({**branch, **shared} for branch in conditioning),
            guidance_scale=self._scale(request) if len(conditioning) > 1 else 1.0,
            schedule=self._new_schedule(request),
            width=request.width,
            height=request.height,
        )

    # At each step

    def denoise(
        self, prepared: Prepared, latents: torch.Tensor, step: int
    ) -> tuple[torch.Tensor, ...]:
        timestep_B = prepared.schedule.timesteps[step].expand(1).to(latents.dtype) / 1000
        return tuple(
            self._predict(branch, latents, timestep_B.to(latents.device), step)
            for branch in prepared.branches
        )

    def guide(self, prepared: Prepared, predictions: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return guide_branches(predictions, prepared.guidance_scale)

    # After the steps

    def decode(self, prepared: Prepared, latents: torch.Tensor) -> tuple[Image, ...]:
        rows, columns = prepared.height // self.token_pixels, prepared.width // self.token_pixels
        pixels_BCHW = self.decoder({"latents": unpack(latents, rows, columns)})
        return to_pictures(pixels_BCHW)

    # For edits

    def encode_picture(self, picture: Image) -> torch.Tensor:
        return pack(self._encode_pixels(picture))

    def spread_mask(self, token_mask: NDArray[np.bool_]) -> torch.Tensor:
        return torch.from_numpy(token_mask).reshape(1, -1, 1).to(self.device)

    def draw_noise(self, request: GenerateRequest) -> torch.Tensor:
        rows, columns = self._grid(request)
        noise_BCYX = draw_noise(
            (1, self.config.token_channels, rows, columns),
            seed=request.seed,
            image_index=request.image_index,
        )
        return pack(noise_BCYX.to(self.device, self.dtype))

    def sigmas(self, request: GenerateRequest) -> tuple[float, ...]:
        return tuple(float(sigma) for sigma in self._new_schedule(request).sigmas)

    # Parts

    def _grid(self, request: GenerateRequest) -> tuple[int, int]:
        return request.height // self.token_pixels, request.width // self.token_pixels

    def _scale(self, request: GenerateRequest) -> float:
        if self.config.is_distilled:
            return 1.0
        return DEFAULT_GUIDANCE_SCALE if request.guidance_scale is None else request.guidance_scale

    def _warn_of_words(self, request: GenerateRequest) -> tuple[str, ...]:
        if not self.config.checks_vocabulary:
            return ()
        return tuple(
            f"word {word!r} is not in the model's vocabulary; it may have no effect"
            for word in self.tokenizer.unknown_words(request.prompt)
        )

    def _warn_of_guidance(self, request: GenerateRequest) -> tuple[str, ...]:
        if self._scale(request) > 1:
            return ()
        reason = "the model is distilled" if self.config.is_distilled else "guidance_scale <= 1"
        without_effect: list[str] = []
        if self.config.is_distilled and (request.guidance_scale or 0) > 1:
            without_effect.append(f"guidance_scale {request.guidance_scale:g}")
        if request.negative_prompt:
            without_effect.append("negative_prompt")
        return tuple(f"{setting} has no effect: {reason}" for setting in without_effect)

    def _encode_prompt(self, prompt: str) -> NamedTensors:
        tokens = self.tokenizer.tokenize(prompt)
        embeddings_BTM = self.text_encoder(
            {name: tensor.to(self.device) for name, tensor in tokens.items()}
        )
        text_ids = position_ids(text=embeddings_BTM.shape[1]).to(self.device)
        return {"encoder_hidden_states": embeddings_BTM, "txt_ids": text_ids}

    def _encode_pixels(self, picture: Image) -> torch.Tensor:
        """Return normalized latents (1, C, Y, X); the picture is cropped to whole tokens."""
        width = picture.width // self.token_pixels * self.token_pixels
        height = picture.height // self.token_pixels * self.token_pixels
        # Imported here: drawing from words alone does without diffusers.
        from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor

        pixels_BCHW = Flux2ImageProcessor(vae_scale_factor=self.token_pixels).preprocess(
            picture, height=height, width=width, resize_mode="crop"
        )
        return self.encoder({"pixels": pixels_BCHW.to(self.device, self.dtype)})

    def _image_inputs(self, request: GenerateRequest, rows: int, columns: int) -> NamedTensors:
        ids = [position_ids(rows=rows, columns=columns)]
        packed: list[torch.Tensor] = []
        for index, reference in enumerate(request.references, start=1):
            latents_BCYX = self._encode_pixels(shrink_reference(reference))
            reference_rows, reference_columns = latents_BCYX.shape[2:]
            packed.append(pack(latents_BCYX))
            ids.append(
                position_ids(
                    time=REFERENCE_TIME_STEP * index, rows=reference_rows, columns=reference_columns
                )
            )
        inputs = {"img_ids": torch.cat(ids, dim=1).to(self.device)}
        return {**inputs, "reference_latents": torch.cat(packed, dim=1)} if packed else inputs

    def _new_schedule(self, request: GenerateRequest) -> Schedule:
        num_tokens, num_steps = math.prod(self._grid(request)), request.num_steps
        sigmas = np.linspace(1.0, 1 / num_steps, num_steps)
        mu = shift_exponent(num_tokens, num_steps)
        if is_plain(self.scheduler_settings):
            settings = self.scheduler_settings
            return Schedule(PlainEuler(settings, sigmas=sigmas, mu=mu, device=self.device))
        # Imported here, so that a plain schedule does without diffusers.
        from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
            FlowMatchEulerDiscreteScheduler,
        )

        scheduler: Any = FlowMatchEulerDiscreteScheduler.from_config(dict(self.scheduler_settings))
        scheduler.set_timesteps(sigmas=sigmas, mu=mu, device=self.device)
        return Schedule(scheduler)

    def _predict(
        self, branch: NamedTensors, latents_BIC: torch.Tensor, timestep_B: torch.Tensor, step: int
    ) -> torch.Tensor:
        hidden_states = latents_BIC
        if "reference_latents" in branch:
            hidden_states = torch.cat([latents_BIC, branch["reference_latents"]], dim=1)
        inputs = {
            "hidden_states": hidden_states.to(self.dtype),
            "timestep": timestep_B,
            "encoder_hidden_states": branch["encoder_hidden_states"],
            "img_ids": branch["img_ids"],
            "txt_ids": branch["txt_ids"],
        }
        if self.step_denoiser is not None:
            prediction = self.step_denoiser(inputs, step)
        else:
            prediction = self.denoiser(inputs)
        return prediction[:, : latents_BIC.shape[1]]


def pack(latents_BCYX: torch.Tensor) -> torch.Tensor:
    """Return (B, Y * X, C): one row per token, row by row of the picture."""
    return latents_BCYX.flatten(2).permute(0, 2, 1)


def unpack(latents_BIC: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Return (B, C, Y, X), contiguous: the inverse of `pack`."""
    batch, _, channels = latents_BIC.shape
    return latents_BIC.permute(0, 2, 1).reshape(batch, channels, rows, columns).contiguous()


def to_pictures(pixels_BCHW: torch.Tensor) -> tuple[Image, ...]:
    """Return one RGB picture per batch entry of pixels in -1..1, rounded to bytes."""
    pixels_BHWC = (pixels_BCHW * 0.5 + 0.5).clamp(0, 1).cpu().permute(0, 2, 3, 1).float().numpy()
    bytes_BHWC = (pixels_BHWC * 255).round().astype(np.uint8)
    return tuple(fromarray(bytes_HWC) for bytes_HWC in bytes_BHWC)


def position_ids(*, time: int = 0, rows: int = 1, columns: int = 1, text: int = 1) -> torch.Tensor:
    """Return (1, rows * columns * text, 4) int64: time, row, column, text index of each token."""
    axes = (torch.tensor([time]), torch.arange(rows), torch.arange(columns), torch.arange(text))
    return torch.cartesian_prod(*axes).unsqueeze(0)


def shift_exponent(num_tokens: int, num_steps: int) -> float:
    """Return mu, which shifts sigmas up for large pictures and few steps.

    Two fits, linear in the number of tokens, one for 10 steps and one for 200; between and beyond
    them mu is linear in the steps. Above 4300 tokens the fit for 200 steps serves all.
    """
    at_200_steps = 0.00016927 * num_tokens + 0.45666666
    if num_tokens > 4300:
        return at_200_steps
    at_10_steps = 8.73809524e-05 * num_tokens + 1.89833333
    slope = (at_200_steps - at_10_steps) / 190.0
    return slope * num_steps + (at_200_steps - 200.0 * slope)


def check_size(width: int, height: int, *, multiple: int) -> None:
    """Raise RequestError unless both sides are multiples of a token and the picture fits."""
    for setting, side in (("width", width), ("height", height)):
        if side % multiple or side < MIN_SIDE_PIXELS:
            nearest = max(MIN_SIDE_PIXELS, round(side / multiple) * multiple)
            raise RequestError(
                f"{setting} must be a multiple of {multiple} and at least {MIN_SIDE_PIXELS}, got "
                f"{side}; the nearest that works is {nearest}"
            )
    if width * height > MAX_PICTURE_PIXELS:
        raise RequestError(
            f"width x height must be at most {MAX_PICTURE_PIXELS} pixels, got {width} x {height}; "
            "2048 x 2048 is the largest square"
        )


def check_reference(reference: Image, name: str) -> None:
    """Raise PictureError unless the model can read `reference`."""
    check_reference_size(*reference.size, name=name)


def check_reference_size(width: int, height: int, *, name: str) -> None:
    """Raise PictureError unless the model can read a reference of this size, in pixels."""
    short, long = sorted((width, height))
    if short < MIN_SIDE_PIXELS:
        raise PictureError(
            f"{name} must be at least {MIN_SIDE_PIXELS} pixels a side, got {width} x {height}; pass a "
            "larger picture"
        )
    if long > MAX_REFERENCE_ASPECT * short:
        raise PictureError(
            f"{name} must be at most {MAX_REFERENCE_ASPECT} times as long as wide, got {width} x "
            f"{height}; crop it"
        )


def shrink_reference(reference: Image) -> Image:
    """Return `reference`, scaled down to about 1024 x 1024 pixels in all if it has more."""
    size = shrunk_size(reference.width, reference.height)
    return reference if size == reference.size else reference.resize(size, Resampling.LANCZOS)


def shrunk_size(width: int, height: int) -> tuple[int, int]:
    """Return width and height that a reference of this size is read at."""
    if width * height <= MAX_REFERENCE_PIXELS:
        return width, height
    scale = math.sqrt(MAX_REFERENCE_PIXELS / (width * height))
    return int(width * scale), int(height * scale)


def count_drawn_tokens(inputs: NamedTensors) -> int:
    """Return how many image tokens of a denoiser's inputs are the picture's: they stand at time 0."""
    return int((inputs["img_ids"][0, :, 0] < REFERENCE_TIME_STEP).sum())
