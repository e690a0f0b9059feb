"""From files to keys and values: whole, in part, and with hostile bytes inside good checksums."""

import contextlib
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intonaco.errors import ManifestError, PackError, TemplateMissingError
from intonaco.template.coded import Ladder
from intonaco.template.decoder import StateDecoder
from intonaco.template.ladder_file import LadderReader, write_ladder
from intonaco.template.pack_format import Role
from intonaco.template.pack_reader import places
from intonaco.template.pack_writer import ladder_header
from intonaco.template.reconstruct import PackSource, measure_reconstruct
from tests.support.comparison import assert_close
from tests.support.templates import (
    BLOCK_GROUPS,
    NUM_ROWS,
    NUM_STEPS,
    WIDTH,
    readable_coded,
    readable_packed,
    small_packed,
    small_states,
)

PACKED = readable_packed()
CODED = readable_coded()
UNITS = [(step, block) for step in range(NUM_STEPS) for block in range(5)]


def _source(**options) -> PackSource:
    source = PackSource(PACKED.manifest, **options)
    for record, (step, group) in places(PACKED.manifest):
        source.feed(step, group, PACKED.contents[record.name])
    return source


def _decoder(counts: list[int]) -> StateDecoder:
    decoder = StateDecoder(num_steps=NUM_STEPS, num_blocks=5, num_rows=NUM_ROWS, width=WIDTH)
    for ladder, count in zip(CODED.bases, counts, strict=True):
        for increment in ladder.increments[:count]:
            decoder.add(increment)
    return decoder


def _close(source: PackSource, decoder: StateDecoder) -> None:
    for step, block in UNITS:
        for got, wanted in zip(source.read(step, block), decoder.read(step, block), strict=True):
            assert_close(
                got, wanted, atol=1e-4, why="one float32 product of 16 terms in another order"
            )


def test_a_whole_template_gives_what_its_codec_decodes():
    _close(_source(), _decoder([len(ladder.increments) for ladder in CODED.bases]))


def test_a_whole_template_keeps_all_but_a_thousandth_of_the_energy_of_what_was_captured():
    """Its ladders may be as long as float16 would be; 16 bits a number leave far less error."""
    source, states = _source(), small_states()
    made = np.stack([[unit.numpy() for unit in source.read(*place)] for place in UNITS], axis=1)
    error = made.reshape(states.shape) - states
    assert (error**2).sum() < 0.001 * (states**2).sum()


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_prefixes_of_any_files_give_what_the_increments_in_them_decode_to(data):
    source, counts = PackSource(PACKED.manifest), []
    for group, record in enumerate(PACKED.manifest.bases):
        content = PACKED.contents[record.name]
        cut = data.draw(st.integers(0, len(content)))
        middle = data.draw(st.integers(0, cut))
        source.feed(None, group, content[:middle])
        source.feed(None, group, content[middle:cut])
        header = ladder_header(
            template_id=PACKED.manifest.template_id,
            codec=PACKED.manifest.codec,
            num_rows=NUM_ROWS,
            width=WIDTH,
            blocks=BLOCK_GROUPS[group],
            step=None,
        )
        counts.append(len(list(LadderReader(header, name=record.name).feed(content[:cut]))))
    _close(source, _decoder(counts))


def test_nothing_at_all_reads_as_zero():
    key, value = PackSource(PACKED.manifest).read(0, 0)
    assert (key == 0).all()
    assert (value == 0).all()


def test_rows_are_written_into_their_slots_and_no_others():
    source, rows_N = _source(), torch.tensor([0, 2, 3, *range(5, 14)])
    key, value = torch.full((16, WIDTH), 7.0), torch.full((16, WIDTH), 7.0)
    source.read_into(1, 3, key, value, rows_N=rows_N)
    others = [slot for slot in range(16) if slot not in rows_N]
    for slots, wanted in zip((key, value), source.read(1, 3), strict=True):
        assert torch.equal(slots[rows_N], wanted)
        assert (slots[others] == 7).all()


def test_another_dtype_is_the_float32_state_rounded_once():
    source, rounded = _source(), _source(dtype=torch.bfloat16)
    for wanted, got in zip(source.read(1, 2), rounded.read(1, 2), strict=True):
        assert torch.equal(wanted.to(torch.bfloat16), got)


def test_a_unit_that_no_template_has_is_refused():
    for step, block in ((NUM_STEPS, 0), (0, 5), (-1, 0)):
        with pytest.raises(TemplateMissingError, match=f"step {step}, block {block}"):
            _source().read(step, block)


def test_a_codec_that_is_not_known_here_is_refused():
    with pytest.raises(ManifestError, match="codec must be"):
        PackSource(small_packed().manifest)


def test_the_speed_of_reconstruction_is_that_of_float16_bytes_per_second():
    speed = measure_reconstruct(_source(), num_repeats=1)
    unit_bytes = 2 * NUM_ROWS * WIDTH * 2
    assert speed.gigabytes_per_s == pytest.approx(unit_bytes / speed.unit_us / 1000)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_hostile_payloads_in_good_chunks_are_refused_or_read_as_finite_numbers(data):
    """What checksums cannot see: a writer that is hostile, or wrong."""
    ladder = CODED.bases[0]
    count = data.draw(st.integers(1, 30))
    increments = list(ladder.increments[:count])
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, count - 1))
        increments[index] = replace(increments[index], payload=_hostile(data, increments[index]))
    content = _rewritten(Ladder(start_error=1.0, increments=tuple(increments), floor=0))
    source = PackSource(PACKED.manifest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(PackError):
            source.feed(None, 0, content)
        for block in BLOCK_GROUPS[0]:
            for unit in source.read(0, block):
                assert bool(unit.isfinite().all())


def _hostile(data, increment) -> bytes:
    payload = bytearray(increment.payload)
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "noise"]))
    if kind == "flip" and payload:
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del payload[data.draw(st.integers(0, len(payload))) :]
    elif kind == "grow":
        payload += data.draw(st.binary(min_size=1, max_size=8))
    else:
        payload = bytearray(data.draw(st.binary(max_size=60)))
    return bytes(payload)


def _rewritten(ladder: Ladder) -> bytes:
    manifest = PACKED.manifest
    header = ladder_header(
        template_id=manifest.template_id,
        codec=manifest.codec,
        num_rows=NUM_ROWS,
        width=WIDTH,
        blocks=BLOCK_GROUPS[0],
        step=None,
    )
    assert header.role is Role.BASIS
    return write_ladder(header, ladder).content


def test_errors_of_the_state_fall_with_longer_prefixes():
    states, errors = small_states(), []
    record = PACKED.manifest.bases[0]
    content = PACKED.contents[record.name]
    for length in record.ends[:: max(1, len(record.ends) // 6)]:
        source = PackSource(PACKED.manifest)
        source.feed(None, 0, content[:length])
        found = [source.read(step, block) for step in range(NUM_STEPS) for block in BLOCK_GROUPS[0]]
        wanted = states[:, :, list(BLOCK_GROUPS[0])]
        made = np.stack([[unit[kind].numpy() for unit in found] for kind in range(2)])
        errors.append(float(((made.reshape(wanted.shape) - wanted) ** 2).sum()))
    assert errors == sorted(errors, reverse=True)
