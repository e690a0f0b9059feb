"""Builds the tokenizer: a byte-level BPE in which each word of the vocabulary is one token.

A word-level tokenizer does not survive reloading as Qwen2Tokenizer. Every merge extends a word's
prefix to the right, so a known word always ends as one token and an unknown one falls apart.
The chat template lower-cases and drops commas and full stops: they cost tokens and say nothing here.
"""

from tokenizers.pre_tokenizers import ByteLevel
from transformers import Qwen2Tokenizer

PAD = "<|endoftext|>"
SPACE = "\u0120"  # how byte-level BPE writes a blank
CHAT_TEMPLATE = "{{ ' ' + (messages[0]['content'] | lower | replace(',', ' ') | replace('.', ' ')).split() | join(' ') }}"


def build_tokenizer(words: list[str]) -> Qwen2Tokenizer:
    """Return the tokenizer of `words`; id 0 is the padding."""
    tokens = [PAD, *sorted(ByteLevel.alphabet())]
    known = set(tokens)
    merges: list[tuple[str, str]] = []
    for word in words:
        prefix = SPACE
        for letter in word:
            if prefix + letter not in known:
                known.add(prefix + letter)
                tokens.append(prefix + letter)
                merges.append((prefix, letter))
            prefix += letter
    tokenizer = Qwen2Tokenizer(
        vocab={t: i for i, t in enumerate(tokens)},
        merges=merges,  # pyright: ignore[reportArgumentType]  takes pairs, whatever it says
        padding_side="right",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
