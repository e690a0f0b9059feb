"""Writes the trained parts as one checkpoint folder that diffusers' Flux2KleinPipeline loads."""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)

from models.captions import vocabulary
from models.encode import load_autoencoder
from models.scenery import SIZE
from models.tokenizer import build_tokenizer
from models.train_denoiser import TEXT_LAYERS, TEXT_LENGTH, DollModel

SHIFT = 3.0
DEFAULT_NUM_STEPS = 8
DEFAULT_FOLDER = Path("src/intonaco/assets/paper-dolls")


def build_pipeline(work: Path) -> Flux2KleinPipeline:
    """Return the pipeline of the averaged weights in `work`, float32."""
    tokenizer = build_tokenizer(vocabulary())
    model = DollModel(len(tokenizer))
    state = torch.load(work / "denoiser.checkpoint", weights_only=True)
    model.load_state_dict(state["average"])
    return Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT, use_dynamic_shifting=False),
        vae=_normalized(load_autoencoder(work), work),
        text_encoder=model.text_encoder.eval(),
        tokenizer=tokenizer,
        transformer=model.denoiser.eval(),
        is_distilled=True,
    )


def _normalized(autoencoder: AutoencoderKLFlux2, work: Path) -> AutoencoderKLFlux2:
    """Put the training's normalization into the batch norm that the pipeline reads."""
    stats = json.loads((work / "normalization.json").read_text())
    # Both hold all of their tensors: the one counts statistics, the other has a bias.
    normalization: Any = autoencoder.bn
    to_moments: Any = autoencoder.quant_conv
    normalization.running_mean.copy_(torch.tensor(stats["mean"]))
    scale = torch.tensor(stats["scale"])
    normalization.running_var.copy_(scale.square() - autoencoder.config["batch_norm_eps"])
    half = to_moments.out_channels // 2
    with torch.no_grad():  # the variance half was never trained: say "no variance" instead of noise
        to_moments.weight[half:] = 0
        to_moments.bias[half:] = -20
    return autoencoder


def export(work: Path, folder: Path) -> None:
    pipeline = build_pipeline(work).to(torch.float16)
    pipeline.save_pretrained(folder)
    settings = {
        "default_num_steps": DEFAULT_NUM_STEPS,
        "default_width": SIZE,
        "default_height": SIZE,
        "max_sequence_length": TEXT_LENGTH,
        "text_encoder_out_layers": list(TEXT_LAYERS),
        "vocabulary_check": True,
        "vocabulary": vocabulary(),
    }
    (folder / "intonaco.json").write_text(json.dumps(settings, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--output", type=Path, default=DEFAULT_FOLDER)
    args = parser.parse_args()
    export(args.work, args.output)
    megabytes = sum(f.stat().st_size for f in args.output.rglob("*") if f.is_file()) / 1e6
    print(f"{args.output}: {megabytes:.1f} MB")


if __name__ == "__main__":
    main()
