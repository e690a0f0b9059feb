"""Files to keys and values without torch, some units or all."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from intonaco.errors import ManifestError, TemplateMissingError
from intonaco.template.coded import KINDS
from intonaco.template.pack_reader import PackReader, places
from intonaco.template.plain_decoder import PlainDecoder
from tests.support.plane_decoders import WAYS, decoder_of
from tests.support.templates import NUM_ROWS, NUM_STEPS, WIDTH, readable_packed, small_packed

PACKED = readable_packed()
NUM_BLOCKS = 5


def _reader(**options) -> PackReader:
    reader = PackReader(PACKED.manifest, **{"decode": PlainDecoder, **options})
    for record, (step, group) in places(PACKED.manifest):
        reader.feed(step, group, PACKED.contents[record.name])
    return reader


def _unit(reader: PackReader, step: int, block: int, kind: int) -> np.ndarray:
    made_Nd = np.full((NUM_ROWS, WIDTH), np.nan, np.float32)
    reader.write(step, block, kind, made_Nd)
    return made_Nd


def test_the_reader_imports_neither_torch_nor_diffusers():
    code = (
        "import sys, intonaco.template.pack_reader, intonaco.template.fast_planes\n"
        "heavy = {'torch', 'diffusers', 'intonaco.families', 'intonaco.pipelines', 'PIL'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_a_reader_of_some_units_gives_what_a_reader_of_all_gives():
    every, some = _reader(), _reader(units=[(1, 1), (4, 0)])
    for step in range(NUM_STEPS):
        for unit in ((1, 1), (4, 0)):
            assert np.array_equal(_unit(every, step, *unit), _unit(some, step, *unit))


def test_a_reader_of_some_units_verifies_all_bytes():
    some = _reader(units=[(1, 1)])
    for record, place in places(PACKED.manifest):
        assert some.num_verified_bytes(*place) == record.num_bytes


def test_a_unit_that_is_not_read_here_is_refused():
    some = _reader(units=[(1, 1)])
    with pytest.raises(TemplateMissingError, match="block 1, kind 0"):
        _unit(some, 0, 1, 0)


@pytest.mark.parametrize("unit", [(NUM_BLOCKS, 0), (-1, 0), (0, len(KINDS))])
def test_units_that_no_template_has_are_refused(unit: tuple[int, int]):
    with pytest.raises(TemplateMissingError, match=r"units must be \(block, kind\)"):
        PackReader(PACKED.manifest, decode=PlainDecoder, units=[unit])


def test_a_codec_that_is_not_known_here_is_refused():
    with pytest.raises(ManifestError, match="codec must be"):
        PackReader(small_packed().manifest, decode=PlainDecoder)


@pytest.mark.parametrize("way", WAYS)
def test_readers_on_two_threads_give_what_one_gives(way: str):
    """What they share is not written to: each has numbers and room of its own."""
    decode = decoder_of(way)
    halves = [[(block, kind) for block in range(NUM_BLOCKS)] for kind in KINDS]
    with ThreadPoolExecutor(2) as pool:
        readers = list(pool.map(lambda units: _reader(decode=decode, units=units), halves))
    every = _reader(decode=decode)
    for block in range(NUM_BLOCKS):
        for kind in KINDS:
            made = _unit(readers[kind], 1, block, kind)
            assert np.array_equal(made, _unit(every, 1, block, kind))
