"""Wan's prompts as its text encoder reads them: cleaned, and counted without torch or transformers."""

import html
import re
from pathlib import Path

from tokenizers import Tokenizer

from intonaco.errors import CheckpointError, PromptTooLongError
from intonaco.families.light_tokenizer import TOKENIZER_FILE


class FilmPrompts:
    """Counts the tokens of prompts; `folder` is the checkpoint's tokenizer."""

    def __init__(self, folder: Path, *, max_sequence_length: int) -> None:
        """Raises CheckpointError where the folder holds no tokenizer.json that can be read."""
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        # The library raises a plain Exception for whatever its parsing meets.
        except Exception as error:
            raise CheckpointError(
                f"{folder / TOKENIZER_FILE} cannot be loaded as a tokenizer ({str(error)[:160]}); copy "
                "the folder again"
            ) from error
        # A file may hold the padding and the limit that it was last used with.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_sequence_length = max_sequence_length

    def count_tokens(self, prompt: str) -> int:
        """Return how many tokens `prompt` has, its end included. Raises PromptTooLongError."""
        num_tokens = len(self._tokenizer.encode(clean_prompt(prompt)).ids)
        if num_tokens > self._max_sequence_length:
            raise PromptTooLongError(
                f"prompt must have at most {self._max_sequence_length} tokens, got {num_tokens}; "
                "shorten it"
            )
        return num_tokens


def clean_prompt(prompt: str) -> str:
    """Return `prompt` as Wan's text encoder was trained to read it: mended, unescaped, one line."""
    # Optional: it comes with the video extra, and only mends broken encodings.
    try:
        from ftfy import fix_text
    except ImportError:
        mended = prompt
    else:
        mended = fix_text(prompt)
    unescaped = html.unescape(html.unescape(mended)).strip()
    return re.sub(r"\s+", " ", unescaped).strip()
