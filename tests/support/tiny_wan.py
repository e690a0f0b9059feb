"""Builds a tiny random checkpoint of Wan 2.1's real classes, in diffusers' format."""

import json
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    UniPCMultistepScheduler,
    WanPipeline,
    WanTransformer3DModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "boat",
    "walks",
    "runs",
    "sails",
    "over",
    "under",
    "sea",
    "hill",
    "slowly",
    "fast",
    "blurry",
    "dark",
]
TEXT_DIM = 32
MAX_SEQUENCE_LENGTH = 12
SETTINGS = {
    "default_num_steps": 3,
    "default_width": 32,
    "default_height": 32,
    "max_sequence_length": MAX_SEQUENCE_LENGTH,
}


def build_tiny_wan(folder: Path, *, scheduler: str = "unipc", seed: int = 0) -> Path:
    """Write the checkpoint to `folder` and return it; `scheduler` is "unipc" or "euler"."""
    schedulers = {
        "unipc": UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
        "euler": FlowMatchEulerDiscreteScheduler(shift=3.0),
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        pipeline = WanPipeline(
            tokenizer=_tokenizer(),
            text_encoder=_text_encoder(),
            vae=_autoencoder(),
            scheduler=schedulers[scheduler],
            transformer=_transformer(),
        )
    pipeline.save_pretrained(folder)
    (folder / "intonaco.json").write_text(json.dumps(SETTINGS))
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {piece: index for index, piece in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", vocabulary["</s>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def _text_encoder() -> UMT5EncoderModel:
    config = UMT5Config(
        vocab_size=3 + len(WORDS),
        d_model=TEXT_DIM,
        d_kv=16,
        d_ff=48,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )
    return UMT5EncoderModel(config).eval()


def _transformer() -> WanTransformer3DModel:
    return WanTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=24,
        in_channels=4,
        out_channels=4,
        text_dim=TEXT_DIM,
        freq_dim=32,
        ffn_dim=64,
        num_layers=2,
        rope_max_seq_len=32,
    ).eval()


def _autoencoder() -> AutoencoderKLWan:
    return AutoencoderKLWan(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=[0.1, -0.2, 0.3, 0.05],
        latents_std=[1.1, 0.9, 1.3, 0.8],
    ).eval()
