"""Builds the tokenizer: a byte-level BPE in which each word of the vocabulary is one token.

A word-level tokenizer does not survive reloading as Qwen2TokenizerFast. Every merge extends a word's
prefix to the right, so a known word always ends as one token and an unknown one falls apart.
The chat template lower-cases and drops commas and full stops: they cost tokens and say nothing here.
"""

import json
from pathlib import Path

from tokenizers.pre_tokenizers import ByteLevel
from transformers import Qwen2TokenizerFast


PAD = "<|endoftext|>"
SPACE = "\u0120"  # how byte-level BPE writes a blank
CHAT_TEMPLATE = "{{ ' ' + (messages[0]['content'] | lower | replace(',', ' ') | replace('.', ' ')).split() | join(' ') }}"


def build_tokenizer(words: list[str], folder: Path) -> Qwen2TokenizerFast:
    """Write vocab.json and merges.txt for `words` and return the tokenizer that reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = sorted(ByteLevel.alphabet())
    merges: list[str] = []
    known = set(tokens)
    for word in words:
        prefix = SPACE
        for letter in word:
            merged = prefix + letter
            if merged not in known:
                known.add(merged)
                tokens.append(merged)
                merges.append(f"{prefix} {letter}")
            prefix = merged
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate([*tokens, PAD])}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    tokenizer = Qwen2TokenizerFast(
        vocab_file=str(folder / "vocab.json"), merges_file=str(folder / "merges.txt"),
        unk_token=PAD, eos_token=PAD, pad_token=PAD, padding_side="right",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer
