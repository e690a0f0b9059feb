"""Writes Wan 2.1's presharded weights: each component's tensors, named as its programs do.

Runs once per checkpoint, with the real classes; a warm start only reads the files.
"""

from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from intonaco.families.checkpoint import Checkpoint
from intonaco.families.wan_modules import ChunkedDecoder, Eager, WanPromptEncoder, load_wan
from intonaco.programs.presharding import module_tensors, write_presharded

UNUSED = ("autoencoder.encoder.", "autoencoder.quant_conv.")


def preshard_wan(checkpoint: Checkpoint, folder: Path) -> None:
    """Write text_encoder, denoiser and decoder files to `folder`, in float32."""
    family = load_wan(checkpoint, dtype=torch.float32, device=torch.device("cpu"))
    text_encoder: Any = cast("Eager", family.text_encoder).module
    denoiser: Any = cast("Eager", family.denoiser).module
    modules: dict[str, nn.Module] = {
        # The bare stack: around it, the embedding has a second name.
        "text_encoder": WanPromptEncoder(text_encoder.text_encoder.encoder),
        "denoiser": denoiser.transformer,
        "decoder": cast("ChunkedDecoder", family.decoder).first,
    }
    for name, module in modules.items():
        tensors, derived = module_tensors(module)
        kept = {key: tensor for key, tensor in tensors.items() if not key.startswith(UNUSED)}
        write_presharded(folder / f"{name}.safetensors", kept, derived & kept.keys())
