"""Trains the autoencoder (diffusers' AutoencoderKLFlux2) on crops, then on whole pictures."""

import argparse
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from torch import Tensor

from models.figure import draw_doll
from models.muon import build_optimizers
from models.scenery import SIZE
from models.training import (
    Average,
    Log,
    Rank,
    average_gradients,
    launch,
    place,
    save_atomically,
    set_rate,
)
from models.world import doll_of

CONFIG: dict[str, Any] = {
    "block_out_channels": (8, 16, 32, 64),
    "decoder_block_out_channels": (16, 32, 64, 128),
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "latent_channels": 12,
    "mid_block_add_attention": False,
    "sample_size": SIZE,
}
PIXELS_PER_STEP = 16 * 64 * 64
# Fixed noise on the latents while training: it makes useless channels fall to zero and leaves a
# decoder that forgives the denoiser's small errors.
LATENT_NOISE = 0.04


def crop_side(progress: float) -> int:
    """Return the side of training crops: small ones first, whole pictures at the end."""
    return 64 if progress < 0.6 else 96 if progress < 0.8 else SIZE


def picture_tensor(seed: int) -> Tensor:
    """Return picture `seed` as (3, 192, 192) float32 in -1..1."""
    pixels = np.asarray(draw_doll(doll_of(seed)), dtype=np.float32)
    return torch.from_numpy(pixels / 127.5 - 1).permute(2, 0, 1)


def crops(first_seed: int, stride: int) -> Generator[tuple[int, list[Tensor]], int | None]:
    """Yield batches of crops; send the side of the next crops into the generator."""
    seed, side = first_seed, 64
    while True:
        rng = random.Random(seed)
        batch: list[Tensor] = []
        while len(batch) < max(1, PIXELS_PER_STEP // side**2):
            picture = picture_tensor(seed)
            seed += stride
            for _ in range(1 if side == SIZE else 4):
                left, top = (rng.randrange(SIZE - side + 1) for _ in range(2))
                if rng.random() < 0.85:  # mostly the phase of the token grid
                    left, top = left // 16 * 16, top // 16 * 16
                batch.append(picture[:, top : top + side, left : left + side])
        side = (yield seed, batch) or side


def train(rank: Rank, work: Path, num_steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = AutoencoderKLFlux2(**CONFIG)
    place(model, rank.device)
    # Annotated for another kind of tensor than those that it takes and returns.
    autoencoder: Any = model
    parameters = list(model.parameters())
    matrices = [
        p
        for n, p in model.named_parameters()
        if p.ndim == 4 and "conv_in" not in n and "conv_out" not in n
    ]
    ids = {id(p) for p in matrices}
    optimizers = build_optimizers(
        matrices, [p for p in parameters if id(p) not in ids], muon_lr=0.01, adam_lr=2e-3
    )
    average = Average(model, 0.995)
    first, path = 0, work / "autoencoder.checkpoint"
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        average.shadow, first = state["average"], state["step"]
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    log = Log(work / "autoencoder.jsonl", num_steps, first)
    data = crops(10_000_000 + first * 100_000 + rank.index, rank.count)
    next(data)
    torch.manual_seed(seed + 1 + rank.index + first * 7)
    for step in range(first, num_steps):
        _, batch = data.send(crop_side(step / num_steps))
        x = torch.stack(batch).to(rank.device, memory_format=torch.channels_last)
        z: Tensor = autoencoder.encode(x, return_dict=False)[0].mode()
        noisy = z + LATENT_NOISE * torch.randn_like(z)
        y: Tensor = autoencoder.decode(noisy, return_dict=False)[0]
        error = y - x
        squared = error.square().mean()
        loss = squared + 0.2 * error.abs().mean() + 5e-4 * z.square().mean()
        loss.backward()
        average_gradients(parameters, rank)
        set_rate(optimizers, step, num_steps, decay_from=0.3)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        average.update(model, step)
        log.add(psnr_db=-10 * torch.log10(squared.detach() / 4), latent_std=z.detach().std())
        if rank.is_first and ((step + 1) % 50 == 0 or step + 1 == num_steps):
            log.report(step + 1)
        if rank.is_first and ((step + 1) % 400 == 0 or step + 1 == num_steps):
            save_atomically(
                {
                    "model": model.state_dict(),
                    "average": average.shadow,
                    "step": step + 1,
                    "optimizers": [o.state_dict() for o in optimizers],
                },
                path,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--steps", type=int, default=2600)
    parser.add_argument("--ranks", type=int, default=1 if torch.cuda.is_available() else 2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    launch(train, args.ranks, args.work, args.work, args.steps, args.seed)


if __name__ == "__main__":
    main()
