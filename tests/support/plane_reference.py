"""The plane decoder as docs/template-codec.md gives it, number by number: what fast ones are held to."""

from collections.abc import Generator

from intonaco.template.increments import decode_number

TABLE_256 = (0, 1, 2, 3, 5, 8, 12, 17, 24, 34, 48, 66, 88, 116, 150, 200)
WHOLE = 1 << 64


class RefusedError(Exception):
    """Bytes that no writer makes."""


def reference_plane(
    payload: bytes, at: int, magnitudes: list[list[int]], is_negative: list[list[bool]]
) -> int:
    """Take one plane into the lists (R, L); return where it ends."""
    halves = [half for byte in payload[at:] for half in (byte >> 4, byte & 15)]
    indices = halves[: len(magnitudes)]
    num_words, at = decode_number(payload, at + (len(magnitudes) + 1) // 2)
    words = [
        int.from_bytes(payload[at + 4 * n : at + 4 * n + 4], "little") for n in range(num_words)
    ]
    answers = reference_answers(words)
    next(answers)
    places = [(r, place) for r, row in enumerate(magnitudes) for place in range(len(row))]
    known = [(r, place) for r, place in places if magnitudes[r][place]]
    becoming = [
        (r, place)
        for r, place in places
        if not magnitudes[r][place] and indices[r] and answers.send(TABLE_256[indices[r]])
    ]
    at += 4 * num_words
    if at > len(payload):
        raise RefusedError
    bits = iter([byte >> (7 - place) & 1 for byte in payload[at:] for place in range(8)])
    for r, place in becoming:
        is_negative[r][place] = bool(next(bits))
    for r, place in known:
        magnitudes[r][place] = 2 * magnitudes[r][place] + next(bits)
    for r, place in becoming:
        magnitudes[r][place] = 1
    return at + (len(becoming) + len(known) + 7) // 8


def reference_answers(words: list[int]) -> Generator[bool, int, None]:
    """Yield answers; send each one's probability in 256ths, after one `next`."""
    fed = iter([*words, 0, 0])
    point = (next(fed) << 32) | next(fed)
    lower, size = 0, WHOLE - 1
    probability = yield False
    if not words:
        raise RefusedError
    while True:
        share = size >> 24
        yes_size = share * probability * 65536
        border = share * (2**24 - probability * 65536)
        offset = (point - lower) % WHOLE
        is_yes = offset >= border
        if is_yes and offset - border >= yes_size:
            raise RefusedError
        lower, size = ((lower + border) % WHOLE, yes_size) if is_yes else (lower, border)
        if size < 1 << 32:
            size = (size << 32) % WHOLE
            lower = (lower << 32) % WHOLE
            point = ((point << 32) % WHOLE) | next(fed, 0)
        probability = yield is_yes
