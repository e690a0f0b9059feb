"""Compiled code is there before the first byte of a template."""

from importlib import import_module

import numpy as np

from intonaco.template.coded import KINDS
from intonaco.template.fast_planes import warm_up
from intonaco.template.pack_reader import PackReader, places
from tests.support.plane_decoders import decoder_of, needs_numba
from tests.support.templates import readable_packed

KERNELS = (
    ("head_kernels", "read_heads"),
    ("strand_kernels", "take_increments"),
    ("mix_kernels", "mix"),
)


def _num_signatures() -> list[int]:
    """Return for how many kinds of arguments each entry to compiled code was compiled."""
    modules = ((import_module(f"intonaco.template.{name}"), entry) for name, entry in KERNELS)
    return [len(getattr(module, entry).signatures) for module, entry in modules]


@needs_numba
def test_reading_a_template_compiles_nothing_after_a_warm_up() -> None:
    decode = decoder_of("compiled")
    warm_up(decode)
    before = _num_signatures()
    packed = readable_packed()
    reader = PackReader(packed.manifest, decode=decode)
    for record, (step, group) in places(packed.manifest):
        reader.feed(step, group, packed.contents[record.name])
    sizes = packed.manifest.sizes
    out = np.empty((sizes.num_rows, sizes.width), np.float32)
    for kind in KINDS:
        reader.write(0, 0, kind, out)
    assert _num_signatures() == before
