"""A family without a model: what the loop does with it can be counted."""

from dataclasses import dataclass, field

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from PIL import Image

from intonaco.families.base import Defaults, NamedTensors, Prepared, guide_branches
from intonaco.families.request import GenerateRequest
from intonaco.families.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class CountingFamily:
    """Predicts ones; `calls` lists what was called, with the step where there is one."""

    calls: list[str] = field(default_factory=list)
    num_branches: int = 1
    name: str = "counting"
    dtype: torch.dtype = torch.float32

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def defaults(self) -> Defaults:
        return Defaults(width=8, height=8, num_steps=3)

    def check(self, request: GenerateRequest) -> tuple[str, ...]:
        self.calls.append("check")
        return ("a warning",)

    def encode(self, request: GenerateRequest) -> tuple[NamedTensors, ...]:
        self.calls.append("encode")
        return ({},) * self.num_branches

    def prepare(self, request: GenerateRequest, conditioning: tuple[NamedTensors, ...]) -> Prepared:
        self.calls.append("prepare")
        scheduler = FlowMatchEulerDiscreteScheduler()
        scheduler.set_timesteps(request.num_steps)
        noise = torch.zeros(1, 4, 2)
        return Prepared(
            latents=noise,
            noise=noise,
            branches=conditioning,
            guidance_scale=3.0,
            schedule=Schedule(scheduler),
            width=request.width,
            height=request.height,
        )

    def denoise(
        self, prepared: Prepared, latents: torch.Tensor, step: int
    ) -> tuple[torch.Tensor, ...]:
        self.calls.append(f"denoise {step}")
        return tuple(torch.ones_like(latents) * (1 - index) for index in range(self.num_branches))

    def guide(self, prepared: Prepared, predictions: tuple[torch.Tensor, ...]) -> torch.Tensor:
        self.calls.append("guide")
        return guide_branches(predictions, prepared.guidance_scale)

    def decode(self, prepared: Prepared, latents: torch.Tensor) -> tuple[Image.Image, ...]:
        self.calls.append("decode")
        return (Image.new("RGB", (prepared.width, prepared.height)),)
