"""Builds a tiny random checkpoint of FLUX.2 klein's real classes, in diffusers' format.

Weights are random, so pictures are noise: right for exactness, useless for quality.
"""

import json
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKLFlux2,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
)
from transformers import Qwen2TokenizerFast, Qwen3Config, Qwen3ForCausalLM

WORDS = [
    *("a", "the", "tall", "short", "girl", "boy", "with", "and", "in"),
    *("red", "blue", "green", "hair", "hat", "dress", "shirt", "photo", "of"),
]
TEXT_HIDDEN = 32
OUT_LAYERS = (1, 2, 3)
MAX_SEQUENCE_LENGTH = 24
CHAT_TEMPLATE = "{{ ' ' + messages[0]['content'] }}"
END_OF_TEXT = "<|endoftext|>"

SETTINGS = {
    "default_num_steps": 4,
    "default_width": 64,
    "default_height": 64,
    "max_sequence_length": MAX_SEQUENCE_LENGTH,
    "text_encoder_out_layers": list(OUT_LAYERS),
    "vocabulary_check": True,
}


def build_tiny_flux2(
    folder: Path,
    *,
    use_dynamic_shifting: bool = False,
    is_distilled: bool = True,
    settings: dict[str, object] | None = SETTINGS,
    seed: int = 0,
) -> Path:
    """Write the checkpoint to `folder` and return it; `settings` None leaves intonaco.json out."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        pipeline = Flux2KleinPipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(
                shift=3.0, use_dynamic_shifting=use_dynamic_shifting
            ),
            vae=_autoencoder(),
            text_encoder=_text_encoder(),
            tokenizer=build_tokenizer(WORDS),
            transformer=_transformer(),
            is_distilled=is_distilled,
        )
    pipeline.save_pretrained(folder)
    if settings is not None:
        (folder / "intonaco.json").write_text(json.dumps(settings))
    return folder


def build_tokenizer(words: list[str]) -> Qwen2TokenizerFast:
    """Return a byte-level BPE tokenizer that holds each of `words`, after a space, as one token.

    Every merge starts with the space's letter, which no word holds inside, so merges of different
    words never compete.
    """
    pieces = [
        END_OF_TEXT,
        "Ġ",
        *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,-'",
    ]
    merges: list[tuple[str, str]] = []
    for word in words:
        for length in range(1, len(word) + 1):
            left, right = "Ġ" + word[: length - 1], word[length - 1]
            if left + right not in pieces:
                pieces.append(left + right)
                merges.append((left, right))
    return Qwen2TokenizerFast(
        vocab={piece: index for index, piece in enumerate(pieces)},
        merges=merges,
        chat_template=CHAT_TEMPLATE,
    )


def _text_encoder() -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=len(build_tokenizer(WORDS)),
        hidden_size=TEXT_HIDDEN,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).eval()


def _transformer() -> Flux2Transformer2DModel:
    return Flux2Transformer2DModel(
        in_channels=32,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=len(OUT_LAYERS) * TEXT_HIDDEN,
        timestep_guidance_channels=32,
        axes_dims_rope=(8, 8, 8, 8),
        guidance_embeds=False,
    ).eval()


def _autoencoder() -> AutoencoderKLFlux2:
    autoencoder = AutoencoderKLFlux2(
        block_out_channels=(8, 8, 8, 8), layers_per_block=1, latent_channels=8, norm_num_groups=4
    ).eval()
    # Statistics other than 0 and 1, or a forgotten normalization would go unseen.
    autoencoder.bn.running_mean.normal_(std=0.3)
    autoencoder.bn.running_var.uniform_(0.5, 2.0)
    return autoencoder
