"""A template's manifest: what it refuses, and that it comes back as it was written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from intonaco.errors import ManifestError
from intonaco.template.manifest import (
    MAX_MANIFEST_BYTES,
    FileRecord,
    LadderRecord,
    TokenMask,
    file_record,
    read_manifest,
)
from tests.support.templates import small_packed


def _fields() -> dict:
    return json.loads(small_packed().manifest.to_json())


def _read(fields: dict):
    return read_manifest(json.dumps(fields).encode(), name="manifest.json")


def test_a_manifest_comes_back_as_it_was_written():
    manifest = small_packed().manifest
    assert read_manifest(manifest.to_json(), name="manifest.json") == manifest


def test_the_names_of_files_start_with_what_they_hold_and_end_in_their_hash():
    record = file_record("basis-0", b"content", "itn")
    assert record.name == f"basis-0.{record.sha256[:16]}.itn"


def test_the_state_sizes_give_the_bytes_of_plain_float16_state():
    sizes = small_packed().manifest.sizes
    assert sizes.float16_bytes == 2 * 2 * (2 * 5) * 12 * 16


@given(st.lists(st.booleans(), min_size=3, max_size=60).filter(lambda bits: len(bits) % 3 == 0))
def test_a_mask_of_tokens_comes_back(bits):
    assert TokenMask.of(bits, columns=3).is_edited() == bits


def test_a_ladder_lists_its_cuts_from_the_floor_upwards():
    record = small_packed().manifest.bases[0]
    cuts = record.cuts_from_floor()
    assert cuts[0][0] == record.floor_bytes > record.ends[0]
    assert cuts[-1] == (record.num_bytes, record.errors[-1])


def test_a_file_that_holds_nothing_needs_not_be_fetched():
    record = small_packed().manifest.bases[0]
    empty = LadderRecord(
        **{
            **record.model_dump(),
            "start_error": 2.0,
            "ends": (record.num_bytes,),
            "errors": (2.0,),
            "floor_bytes": 0,
        }
    )
    assert empty.cuts_from_floor() == [(0, 2.0)]


def test_the_longest_cut_within_a_number_of_bytes_is_never_longer():
    record = small_packed().manifest.bases[0]
    found = [record.longest_cut(size) for size in (0, record.ends[1] + 1, record.num_bytes)]
    assert found == [0, record.ends[1], record.num_bytes]


HOSTILE = {
    "schema_version": ("schema_version", 2),
    "unknown": ("unknown", 1),
    "template_id": ("template_id", "xyz"),
    "title": ("title", "x" * 201),
    "bases": ("bases", []),
    "coefficients": ("coefficients", [[]]),
    "num_rows": ("sizes.num_rows", 11),
    "num_rows, a text": ("sizes.num_rows", "12"),
    "block_groups": ("sizes.block_groups", [[0, 2], [1]]),
    "width": ("sizes.width", 0),
    "num_rows x width": (
        "sizes",
        {"num_steps": 2, "num_rows": 1 << 20, "width": 1 << 16, "block_groups": [[0]]},
    ),
    "edited": ("tokens.edited", "f0"),
    "edited filled": ("tokens.edited", "f00001"),
    "rows": ("tokens.rows", 1 << 30),
    "name, a path": ("picture.name", "../picture.png"),
    "name of another hash": ("picture.name", "picture.0000000000000000.png"),
    "num_bytes": ("picture.num_bytes", 1 << 40),
    "ends": ("bases.0.ends", [5, 5]),
    "ends, too many": ("bases.0.ends", list(range(1, 5000))),
    "errors": ("bases.0.errors", [1e9]),
    "errors, not a number": ("bases.0.start_error", "NaN"),
    "floor_bytes": ("bases.0.floor_bytes", 1),
}


@pytest.mark.parametrize(("path", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_manifest_that_breaks_a_rule_is_refused_in_one_line(path, value):
    fields = _fields()
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = fields
    for parent in parents:
        place = place[parent]
    place[last] = value
    with pytest.raises(ManifestError, match=r"^manifest\.json: ") as raised:
        _read(fields)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a": 1e999}'])
def test_what_is_no_manifest_is_refused(content):
    with pytest.raises(ManifestError):
        read_manifest(content, name="manifest.json")


def test_a_manifest_longer_than_the_bound_is_refused_unread():
    with pytest.raises(ManifestError, match=f"at most {MAX_MANIFEST_BYTES} bytes"):
        read_manifest(b" " * (MAX_MANIFEST_BYTES + 1), name="manifest.json")


def test_a_file_record_of_a_wrong_name_cannot_be_made():
    with pytest.raises(ValidationError, match="first 16 digits"):
        FileRecord(name="basis-0.itn", num_bytes=1, sha256="0" * 64)
