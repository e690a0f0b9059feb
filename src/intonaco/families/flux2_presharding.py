"""Writes FLUX.2 klein's presharded weights: each component's tensors, named as its programs do.

Runs once per checkpoint and precision, with the real classes; a warm start only reads the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from intonaco.backends.spec import Precision
from intonaco.families.checkpoint import Checkpoint
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_modules import Eager, PromptEncoder, load_flux2
from intonaco.families.flux2_settings import out_layers
from intonaco.families.flux2_specs import activation_dtype
from intonaco.programs.int8 import LAYERS, quantize_tensors
from intonaco.programs.presharding import module_tensors, write_presharded

UNUSED = {
    "encoder": ("autoencoder.decoder.", "autoencoder.post_quant_conv."),
    "decoder": ("autoencoder.encoder.", "autoencoder.quant_conv."),
}
COUNTER = "num_batches_tracked"


def preshard_flux2(checkpoint: Checkpoint, folder: Path, *, precision: Precision) -> None:
    """Write text_encoder, denoiser, encoder and decoder files to `folder`."""
    dtype = torch.float32 if activation_dtype(precision) == "float32" else torch.bfloat16
    family = load_flux2(checkpoint, dtype=dtype, device=torch.device("cpu"))
    for name, module in program_modules(family, out_layers(checkpoint)).items():
        tensors, derived = module_tensors(module)
        kept = {key: tensor for key, tensor in tensors.items() if _is_used(name, key)}
        if precision in LAYERS and name in {"text_encoder", "denoiser"}:
            kept = quantize_tensors(kept, _linear_names(module))
        write_presharded(folder / f"{name}.safetensors", kept, derived & kept.keys())


def program_modules(family: Flux2Family, layers: tuple[int, ...]) -> dict[str, nn.Module]:
    """Return the modules whose tensors the programs bind, by component."""
    modules: dict[str, Any] = {
        name: cast("Eager", getattr(family, name)).module
        for name in ("text_encoder", "denoiser", "encoder", "decoder")
    }
    # Programs need the text model without its language head, and the bare transformer.
    modules["text_encoder"] = PromptEncoder(modules["text_encoder"].language_model.model, layers)
    modules["denoiser"] = modules["denoiser"].transformer
    return modules


def _is_used(component: str, name: str) -> bool:
    return not name.startswith(UNUSED.get(component, ())) and not name.endswith(COUNTER)


def _linear_names(module: nn.Module) -> frozenset[str]:
    # Typed here, as torch's own annotation leaves the modules' memo partially unknown.
    named = cast("Any", module).named_modules()
    return frozenset(f"{name}.weight" for name, child in named if isinstance(child, nn.Linear))
