"""Prompts to token ids: chat template, fixed padding, length check, words the vocabulary lacks."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from intonaco.errors import PromptTooLongError

if TYPE_CHECKING:
    import torch  # counting tokens needs none

_WORD = re.compile(r"\w+")
_PLACE = "placeofprompt"


class ChatTokenizer:
    """A transformers tokenizer whose prompts pass a chat template and are padded to one length."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_sequence_length: int,
        vocabulary: Collection[str] | None = None,
    ) -> None:
        """`vocabulary`: the words that the model was taught, where its checkpoint lists them.

        Without a list every word that is one whole token counts as known; but a byte-pair
        tokenizer also holds beginnings of words as tokens.
        """
        self._tokenizer = tokenizer
        self._vocabulary = None if vocabulary is None else frozenset(vocabulary)
        self.max_sequence_length = max_sequence_length

    def tokenize(self, prompt: str) -> "dict[str, torch.Tensor]":
        """Return input_ids and attention_mask, both (1, max_sequence_length) int64.

        Raises PromptTooLongError: a prompt is never cut.
        """
        text = self._templated(prompt)
        encoded = self._tokenizer(
            text, return_tensors="pt", padding="max_length", max_length=self.max_sequence_length
        )
        self._check_length(encoded["input_ids"].shape[1])
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}

    def count_tokens(self, prompt: str) -> int:
        """Return how many tokens `prompt` has, its chat template included.

        Raises PromptTooLongError where `tokenize` would.
        """
        num_tokens = len(self._tokenizer(self._templated(prompt))["input_ids"])
        self._check_length(num_tokens)
        return num_tokens

    def unknown_words(self, prompt: str) -> tuple[str, ...]:
        """Return the words of `prompt` that the model was not taught, in order, each once."""
        # The template may rewrite the prompt, so it is read as the model reads it, between the
        # template's own words.
        before, _, after = self._templated(_PLACE).partition(_PLACE)
        text = self._templated(prompt)
        start, end = len(before), len(text) - len(after)
        offsets = self._tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        unknown: dict[str, None] = {}
        for word in _WORD.finditer(text, start, end):
            # A token may begin earlier, with the space or hyphen before the word, but not later.
            is_token = any(left <= word.start() and right == word.end() for left, right in offsets)
            if not is_token or not self._is_taught(word.group()):
                unknown[word.group()] = None
        return tuple(unknown)

    def _check_length(self, num_tokens: int) -> None:
        if num_tokens > self.max_sequence_length:
            raise PromptTooLongError(
                f"prompt must have at most {self.max_sequence_length} tokens (chat template "
                f"included), got {num_tokens}; leave out {num_tokens - self.max_sequence_length} "
                "tokens or more"
            )

    def _is_taught(self, word: str) -> bool:
        return self._vocabulary is None or word in self._vocabulary

    def _templated(self, prompt: str) -> str:
        return self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
