"""Answers of yes and no to bytes and back, each with one of 15 probabilities; the coder is constriction's.

A coder is asked for a run of answers of one probability at a time: a model that is made once for a
run costs a tenth of one that is made for every answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError

PROBABILITIES_256 = (0, 1, 2, 3, 5, 8, 12, 17, 24, 34, 48, 66, 88, 116, 150, 200)
"""Of "yes" in 256ths, by index; exact in binary, so every reader's coder agrees. 0: never asked."""
PROBABILITIES = np.array(PROBABILITIES_256) / 256
WORD_BYTES = 4

Runs = Sequence[tuple[int, int]]
"""(index of the probability, answers), in order."""


def range_encode(answers: NDArray[np.bool_], runs: Runs) -> bytes:
    """Return the coder's words, little-endian; nothing for no answers."""
    if not answers.size:
        return b""
    coder = _coder()
    encoder: Any = coder.queue.RangeEncoder()
    symbols = answers.astype(np.int32)
    start = 0
    for index, count in runs:
        encoder.encode(symbols[start : start + count], coder.models[index])
        start += count
    words: NDArray[np.uint32] = encoder.get_compressed()
    return words.astype("<u4").tobytes()


def range_decode(words: bytes, runs: Runs) -> NDArray[np.bool_]:
    """Return the answers of all runs. Raises PackDamagedError for words that no encoder writes."""
    if not runs:
        return np.zeros(0, np.bool_)
    check_words(words)
    numbers = np.frombuffer(words, dtype="<u4").astype(np.uint32)
    coder = _coder()
    decoder: Any = coder.queue.RangeDecoder(numbers)
    try:
        parts = [decoder.decode(coder.models[index], count) for index, count in runs]
    except AssertionError:
        # constriction's word for a point beyond the range.
        raise damaged_words() from None
    return np.concatenate(parts).astype(np.bool_)


def check_words(words: bytes) -> None:
    """Raise PackDamagedError unless there is a whole word or more."""
    if not words or len(words) % WORD_BYTES:
        raise PackDamagedError(
            f"a plane's range coder needs whole 32-bit words, got {len(words)} B"
        )


def damaged_words() -> PackDamagedError:
    """Return the error for words that no encoder writes."""
    return PackDamagedError("a plane's range coder holds words that no writer makes")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coder:
    """constriction, imported.

    Attributes:
        models: of each probability; the first is never used.
    """

    queue: Any
    models: tuple[Any, ...]


@cache
def _coder() -> _Coder:
    stream: Any = import_module("constriction").stream
    models = (stream.model.Bernoulli(value, perfect=True) for value in PROBABILITIES[1:].tolist())
    return _Coder(queue=stream.queue, models=(None, *models))
