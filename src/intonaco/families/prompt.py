"""Prompts to token ids: chat template, fixed padding, length check, words the vocabulary lacks."""

import re
from typing import Any

import torch

from intonaco.errors import PromptTooLongError

_WORD = re.compile(r"\w+")
_PLACE = "placeofprompt"


class ChatTokenizer:
    """A transformers tokenizer whose prompts pass a chat template and are padded to one length."""

    def __init__(self, tokenizer: Any, *, max_sequence_length: int) -> None:
        self._tokenizer = tokenizer
        self.max_sequence_length = max_sequence_length

    def tokenize(self, prompt: str) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask, both (1, max_sequence_length) int64.

        Raises PromptTooLongError: a prompt is never cut.
        """
        text = self._templated(prompt)
        encoded = self._tokenizer(
            text, return_tensors="pt", padding="max_length", max_length=self.max_sequence_length
        )
        num_tokens = encoded["input_ids"].shape[1]
        if num_tokens > self.max_sequence_length:
            raise PromptTooLongError(
                f"prompt must have at most {self.max_sequence_length} tokens (chat template "
                f"included), got {num_tokens}; leave out {num_tokens - self.max_sequence_length} "
                "tokens or more"
            )
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}

    def unknown_words(self, prompt: str) -> tuple[str, ...]:
        """Return the words of `prompt` that are not one whole token, in order, each once."""
        # The template may rewrite the prompt, so it is read as the model reads it, between the
        # template's own words.
        before, _, after = self._templated(_PLACE).partition(_PLACE)
        text = self._templated(prompt)
        start, end = len(before), len(text) - len(after)
        offsets = self._tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        unknown: dict[str, None] = {}
        for word in _WORD.finditer(text, start, end):
            # A token may begin earlier, with the space or hyphen before the word, but not later.
            if not any(left <= word.start() and right == word.end() for left, right in offsets):
                unknown[word.group()] = None
        return tuple(unknown)

    def _templated(self, prompt: str) -> str:
        return self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
