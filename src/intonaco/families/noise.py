"""The start noise, a function of (seed, image index) alone, whatever the device and precision.

Index 0 draws what `torch.Generator().manual_seed(seed)` draws, so it is the noise of a diffusers
pipeline at that seed. Index k > 0 seeds the generator with the first 8 bytes (big-endian) of
sha256("intonaco-noise:{seed}:{k}"), so pictures of a series do not depend on each other.
torch's CPU generator reads the low 32 bits of a seed: seeds equal in those draw the same noise.
Lower precisions round this draw; a diffusers pipeline draws in its own precision, which is another
draw, so in bfloat16 the two agree only when the pipeline is given our noise as `latents`.
"""

import hashlib

import torch


def noise_seed(seed: int, image_index: int) -> int:
    """Return the generator's seed for picture `image_index` of the series `seed`."""
    if image_index == 0:
        return seed
    digest = hashlib.sha256(f"intonaco-noise:{seed}:{image_index}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def draw_noise(shape: tuple[int, ...], *, seed: int, image_index: int) -> torch.Tensor:
    """Return standard normal noise of `shape`, float32, on the host."""
    generator = torch.Generator().manual_seed(noise_seed(seed, image_index))
    return torch.randn(shape, generator=generator, dtype=torch.float32)
