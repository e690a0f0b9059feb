"""Chooses what reads bit-planes: compiled code where it pays and is there, else what is always there.

Both give the same numbers. Compiled code is half a second late (numba has to start), and several
seconds late the first time; it is worth that from some megabytes on.
"""

from importlib import import_module
from importlib.util import find_spec

import numpy as np

from intonaco.template.coded import Increment
from intonaco.template.decoder import StateDecoder
from intonaco.template.increments import IncrementWriter, UnitRange
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoder import MakeDecoder
from intonaco.template.planes import codes_of, encode_planes
from intonaco.template.strands import FRAME, MEAN

MIN_COMPILED_BYTES = 16_000_000
"""Ladder files of a template; docs/template-codec.md has the figures."""


def plane_decoder_for(num_bytes: int, *, is_resident: bool = False) -> MakeDecoder:
    """Return what reads planes best for a template of so many bytes of ladder files.

    Args:
        is_resident: the process reads many templates, so that numba's start does not count.
    """
    if find_spec("numba") is None or not (is_resident or num_bytes >= MIN_COMPILED_BYTES):
        return PlainDecoder
    return import_module("intonaco.template.compiled_decoder").CompiledDecoder


def warm_up(decode: MakeDecoder) -> None:
    """Run everything that decoding runs once, on a tiny unit, so that compiled code is there.

    Loads what was compiled before (milliseconds beside numba's start), or compiles (many seconds) and
    keeps it on disk.
    """
    decoder = StateDecoder(num_steps=1, num_blocks=1, num_rows=2, width=2, decode=decode)
    numbers = np.array([[1.0, -3.0]])
    no_exponents = np.zeros(1, np.int8)
    codes = codes_of(numbers, exponent=1, vector_exponents_R=no_exponents, num_planes=2)
    payloads = {FRAME: bytes(3), MEAN: encode_planes(codes, first_plane=0)}
    units = UnitRange(first_block=0, num_blocks=1, max_planes=2)
    writer = IncrementWriter(units)
    chunk = b"".join(
        writer.write(
            Increment(
                block=0,
                kind=0,
                first_component=number,
                num_components=1,
                first_plane=0,
                num_planes=1 if number == FRAME else codes.num_planes,
                payload=payload,
                error=0.0,
            )
        )
        for number, payload in payloads.items()
    )
    decoder.take(0, 0, chunk, decoder.open_heads(units).read_heads(chunk).rows, 0)
    decoder.read(0, 0)
