"""Chooses what reads bit-planes: compiled code where it pays and is there, else what is always there.

Both give the same numbers. Compiled code is half a second late (numba has to start), and several
seconds late the first time; it is worth that from some megabytes on.
"""

from importlib import import_module
from importlib.util import find_spec

from intonaco.template.plane_decoding import DecodePlane, decode_plane

MIN_COMPILED_BYTES = 16_000_000
"""Ladder files of a template; docs/template-codec.md has the figures."""


def plane_decoder_for(num_bytes: int) -> DecodePlane:
    """Return what reads planes best for a template of so many bytes of ladder files."""
    if num_bytes < MIN_COMPILED_BYTES or find_spec("numba") is None:
        return decode_plane
    return import_module("intonaco.template.plane_kernels").decode_plane
