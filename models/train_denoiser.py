"""Trains text encoder and denoiser together on encoded pictures: velocity prediction, flow matching.

A step's batch is either pictures from words alone or pictures with a reference (lot per step, the
same on all ranks, so that ranks stay in step). Seeded and resumable from its checkpoint.
"""

import argparse
import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from models.captions import training_caption, vocabulary
from models.encode import CHANNELS, PICTURE_TOKENS, REFERENCE_TOKENS, open_array, reference_kind
from models.figure import CENTER
from models.muon import build_optimizers
from models.tokenizer import build_tokenizer
from models.training import Average, Log, Rank, average_gradients, launch, save_atomically, set_rate
from models.world import doll_of

TEXT_LENGTH = 40
TEXT_LAYERS = (1, 2, 3)
TEXT_WIDTH = 128
BATCH = 12  # per rank
REFERENCE_SHARE = 0.35
# Time shift: high first, so that words are bound before edges are drawn.
BINDING_SHIFT, BINDING_SHARE, SHIFT = 6.0, 0.2, 4.0

FIGURE_WEIGHT, HEAD_WEIGHT, MOUTH_WEIGHT = 2.0, 5.0, 10.0

DENOISER: dict[str, Any] = {
    "in_channels": CHANNELS,
    "num_layers": 2,
    "num_single_layers": 6,
    "attention_head_dim": 64,
    "num_attention_heads": 4,
    "joint_attention_dim": TEXT_WIDTH * len(TEXT_LAYERS),
    "timestep_guidance_channels": 256,
    "mlp_ratio": 3.0,
    "axes_dims_rope": (8, 24, 24, 8),
    "rope_theta": 100,
    "guidance_embeds": False,
}


def text_config(vocabulary_size: int) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=vocabulary_size,
        hidden_size=TEXT_WIDTH,
        intermediate_size=2 * TEXT_WIDTH,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        use_cache=False,
    )


class DollModel(torch.nn.Module):
    """Text encoder and denoiser as the pipeline chains them (padding attended to, as it does)."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.text_encoder = Qwen3ForCausalLM(text_config(vocabulary_size))
        self.denoiser = Flux2Transformer2DModel(**DENOISER)
        # Embeddings of unit order, or the first hidden states that the denoiser reads start near zero.
        torch.nn.init.normal_(self.text_encoder.model.embed_tokens.weight, std=0.5)
        torch.nn.init.zeros_(self.denoiser.proj_out.weight)
        self.text_ids = _ids(1, 1, 1, TEXT_LENGTH)
        self.picture_ids = _ids(1, 12, 12, 1)
        self.reference_ids = _ids(1, 6, 6, 1) + torch.tensor([10, 0, 0, 0])

    def forward(
        self, latents: Tensor, time: Tensor, tokens: Tensor, mask: Tensor, reference: Tensor | None
    ) -> Tensor:
        """Return the velocity (B, picture tokens, channels)."""
        hidden = self.text_encoder(
            input_ids=tokens, attention_mask=mask, output_hidden_states=True
        ).hidden_states
        text = torch.cat([hidden[k] for k in TEXT_LAYERS], dim=-1)
        x, ids = latents, self.picture_ids
        if reference is not None:
            x, ids = torch.cat([x, reference], 1), torch.cat([ids, self.reference_ids])
        device = latents.device
        out = self.denoiser(
            hidden_states=x,
            timestep=time,
            encoder_hidden_states=text,
            txt_ids=self.text_ids.to(device),
            img_ids=ids.to(device),
            return_dict=False,
        )[0]
        return out[:, : latents.shape[1]]


def _ids(t: int, h: int, w: int, length: int) -> Tensor:
    return torch.cartesian_prod(*(torch.arange(n) for n in (t, h, w, length)))


def sample_times(count: int, shift: float, generator: torch.Generator) -> Tensor:
    """Logit-normal times, shifted towards noise."""
    t = torch.sigmoid(torch.randn(count, generator=generator))
    return shift * t / (1 + (shift - 1) * t)


@lru_cache(maxsize=len(CENTER))
def token_weights(place: str) -> Tensor:
    """Return how much each token counts, (144,) float32 of mean 1.

    Hair and mouth are a few tokens of 144, so their words were learnt last; now the figure counts
    more than the scenery, the head more than the rest of it, the mouth most.
    """
    column = CENTER[place] // 16
    weights = torch.ones(12, 12)
    weights[:, max(0, column - 3) : column + 3] = FIGURE_WEIGHT
    weights[:5, max(0, column - 2) : column + 2] = HEAD_WEIGHT
    weights[3, column - 1 : column + 1] = MOUTH_WEIGHT
    return (weights / weights.mean()).flatten()


class Items:
    """The encoded training set, normalized on reading, with fresh captions at every visit."""

    def __init__(self, work: Path) -> None:
        stats = json.loads((work / "normalization.json").read_text())
        self.count = stats["items"]
        self.mean, self.scale = torch.tensor(stats["mean"]), torch.tensor(stats["scale"])
        self.pictures = open_array(work / "pictures.f16", self.count, PICTURE_TOKENS, mode="r")
        self.references = open_array(
            work / "references.f16", self.count, REFERENCE_TOKENS, mode="r"
        )
        self.tokenizer = build_tokenizer(vocabulary())
        self.by_kind = {
            k: [i for i in range(self.count) if reference_kind(i) == k] for k in ("head", "clothes")
        }

    def latents(self, array: np.memmap, indices: list[int]) -> Tensor:
        raw = torch.from_numpy(np.stack([array[i] for i in indices]).astype(np.float32))
        return (raw - self.mean) / self.scale

    def tokens(self, captions: list[str]) -> tuple[Tensor, Tensor]:
        texts = [
            str(
                self.tokenizer.apply_chat_template([{"role": "user", "content": c}], tokenize=False)
            )
            for c in captions
        ]
        batch = self.tokenizer(
            texts,
            padding="max_length",
            max_length=TEXT_LENGTH,
            truncation=True,
            return_tensors="pt",
        )
        return batch["input_ids"], batch["attention_mask"]


def build_training(
    items: Items, rank: Rank, *, fast: bool
) -> tuple[DollModel, list[torch.optim.Optimizer]]:
    model = DollModel(len(items.tokenizer)).to(rank.device)
    inner = [p for n, p in model.denoiser.named_parameters() if p.ndim == 2 and "blocks" in n]
    ids = {id(p) for p in inner}
    text = [p for p in model.text_encoder.parameters() if p.requires_grad]
    others = [p for p in model.denoiser.parameters() if id(p) not in ids]
    optimizers = build_optimizers(inner, others, muon_lr=0.02, adam_lr=1.5e-3, rank=rank)
    optimizers[1].add_param_group({"params": text, "lr": 3e-3, "base_lr": 3e-3})
    if fast:
        model.denoiser.compile(dynamic=False)
    return model, optimizers


def train(rank: Rank, work: Path, num_steps: int, seed: int, fast: bool) -> None:
    torch.manual_seed(seed)
    items = Items(work)
    model, optimizers = build_training(items, rank, fast=fast)
    parameters = [p for p in model.parameters() if p.requires_grad]
    average, first, path = Average(model, 0.995), 0, work / "denoiser.checkpoint"
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        average.shadow, first = state["average"], state["step"]
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    log = Log(work / "denoiser.jsonl", num_steps, first)
    for step in range(first, num_steps):
        shift = BINDING_SHIFT if step < BINDING_SHARE * num_steps else SHIFT
        loss, label = batch_loss(model, items, rank, seed=seed * 10_000_019 + step, shift=shift)
        loss.backward()
        average_gradients(parameters, rank)
        set_rate(optimizers, step, num_steps, decay_from=0.55)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        average.update(model, step)
        log.add(**{label: loss.detach()})
        if rank.is_first and ((step + 1) % 50 == 0 or step + 1 == num_steps):
            log.report(step + 1)
        if rank.is_first and ((step + 1) % 200 == 0 or step + 1 == num_steps):
            save_atomically(
                {
                    "model": model.state_dict(),
                    "average": average.shadow,
                    "step": step + 1,
                    "optimizers": [o.state_dict() for o in optimizers],
                },
                path,
            )


def batch_loss(
    model: DollModel, items: Items, rank: Rank, *, seed: int, shift: float
) -> tuple[Tensor, str]:
    """Return the loss of one random batch and the name of its kind."""
    common = random.Random(seed)
    kind = common.choice(("head", "clothes")) if common.random() < REFERENCE_SHARE else None
    rng = random.Random(seed * 64 + rank.index)
    generator = torch.Generator().manual_seed(seed * 64 + rank.index)
    pool = items.by_kind[kind] if kind else range(items.count)
    indices = rng.choices(pool, k=BATCH)
    clean = items.latents(items.pictures, indices)
    reference = items.latents(items.references, indices).to(rank.device) if kind else None
    tokens, mask = items.tokens([training_caption(doll_of(i), rng, kind) for i in indices])
    noise = torch.randn(clean.shape, generator=generator)
    time = sample_times(BATCH, shift, generator)
    noisy = torch.lerp(clean, noise, time[:, None, None])
    out = model(*(x.to(rank.device) for x in (noisy, time, tokens, mask)), reference)
    weights = torch.stack([token_weights(doll_of(i).place) for i in indices]).to(rank.device)
    squared = (out - (noise - clean).to(rank.device)).square().mean(-1)
    loss = (squared * weights).mean()
    return loss, f"loss_{kind or 'words'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--ranks", type=int, default=1 if torch.cuda.is_available() else 2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--no-compile",
        action="store_true",
        help="run the denoiser without torch.compile (needs no g++)",
    )
    args = parser.parse_args()
    launch(train, args.ranks, args.work, args.work, args.steps, args.seed, not args.no_compile)


if __name__ == "__main__":
    main()
