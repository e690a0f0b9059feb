"""Chooses what reads bit-planes: compiled code where it pays and is there, else what is always there.

Both give the same numbers. Compiled code is half a second late (numba has to start), and several
seconds late the first time; it is worth that from some megabytes on.
"""

from importlib import import_module
from importlib.util import find_spec

from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoder import MakeDecoder

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
