"""Encodes the training set once: pictures and their references as latents on disk.

Item i is the doll of seed i with one reference (its head or its clothes, by lot), taken from another
doll that shares those attributes, in its own pose and surroundings.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from PIL import Image
from torch import Tensor

from models.figure import draw_doll, reference_picture
from models.train_autoencoder import CONFIG
from models.training import Rank, launch, place
from models.world import REFERENCE_ATTRIBUTES, Doll, doll_of, wear

CHANNELS: int = 4 * CONFIG["latent_channels"]
PICTURE_TOKENS = 144
REFERENCE_TOKENS = 36
_BATCH = 20
_OTHER = 500_000_000  # seeds of the dolls that references are taken from


def reference_kind(seed: int) -> str:
    """Return which reference item `seed` has."""
    return random.Random(seed * 2 + 1).choice(("head", "clothes"))


def reference_doll(doll: Doll, seed: int, kind: str) -> Doll:
    """Return another doll that shares the referenced attributes of `doll`."""
    return wear(doll_of(_OTHER + seed), doll, REFERENCE_ATTRIBUTES[kind])


def load_autoencoder(work: Path) -> AutoencoderKLFlux2:
    """Return the averaged autoencoder of the last checkpoint."""
    state = torch.load(work / "autoencoder.checkpoint", weights_only=True)
    model = AutoencoderKLFlux2(**CONFIG)
    model.load_state_dict(state["average"])
    return model.eval().requires_grad_(False)


def encode(model: AutoencoderKLFlux2, pictures: list[Image.Image], device: str) -> Tensor:
    """Return raw packed latents (B, tokens, 4 x latent channels) of pictures of one size."""
    pixels = np.stack([np.asarray(p, dtype=np.float32) / 127.5 - 1 for p in pictures])
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(device, memory_format=torch.channels_last)
    planes: Tensor = model.encode(x, return_dict=False)[0].mode()
    z = torch.nn.functional.pixel_unshuffle(planes, 2)
    return z.flatten(2).mT.contiguous().cpu()


def open_array(
    path: Path, num_items: int, tokens: int, *, mode: Literal["r", "r+", "w+"]
) -> np.memmap:
    return np.memmap(path, np.float16, mode, shape=(num_items, tokens, CHANNELS))


@torch.inference_mode()
def encode_share(rank: Rank, work: Path, num_items: int) -> None:
    model = load_autoencoder(work)
    place(model, rank.device)
    pictures = open_array(work / "pictures.f16", num_items, PICTURE_TOKENS, mode="r+")
    references = open_array(work / "references.f16", num_items, REFERENCE_TOKENS, mode="r+")
    starts = range(rank.index * _BATCH, num_items, rank.count * _BATCH)
    for done, start in enumerate(starts):
        seeds = range(start, min(start + _BATCH, num_items))
        pictures[start : seeds.stop] = encode(
            model, [draw_doll(doll_of(s)) for s in seeds], rank.device
        ).numpy()
        drawn = [
            reference_picture(reference_doll(doll_of(s), s, reference_kind(s)), reference_kind(s))
            for s in seeds
        ]
        references[start : seeds.stop] = encode(model, drawn, rank.device).numpy()
        if rank.is_first and done % 25 == 0:
            print(f"encoded {done / len(starts):.0%} of {num_items} items", flush=True)
    pictures.flush()
    references.flush()


def normalization(pictures: np.memmap) -> dict[str, list[float]]:
    """Return mean and scale per channel for the autoencoder's batch norm (4 equal per latent channel).

    The scale is std^0.5 times a common factor that makes the whole unit variance: strong channels
    stay strong, where whitening would spend the denoiser's capacity on grit.
    """
    sample = torch.from_numpy(np.asarray(pictures[:2000], dtype=np.float32)).flatten(0, 1)
    per_latent = sample.reshape(len(sample), -1, 4)
    mean, std = per_latent.mean((0, 2)), per_latent.std((0, 2))
    common = (std.square() / std).mean().sqrt()
    scale = std.sqrt() * common
    return {
        "mean": mean.repeat_interleave(4).tolist(),
        "scale": scale.repeat_interleave(4).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--ranks", type=int, default=1 if torch.cuda.is_available() else 2)
    args = parser.parse_args()
    for name, tokens in (("pictures", PICTURE_TOKENS), ("references", REFERENCE_TOKENS)):
        open_array(args.work / f"{name}.f16", args.items, tokens, mode="w+").flush()
    launch(encode_share, args.ranks, args.work, args.work, args.items)
    stats = normalization(
        open_array(args.work / "pictures.f16", args.items, PICTURE_TOKENS, mode="r")
    )
    (args.work / "normalization.json").write_text(json.dumps({**stats, "items": args.items}))


if __name__ == "__main__":
    main()
