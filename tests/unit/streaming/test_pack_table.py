"""A template's manifest as the controller's table."""

from intonaco.streaming.pack_table import table_of
from tests.support.templates import small_packed

MANIFEST = small_packed().manifest


def test_the_table_begins_at_every_file_s_floor_and_ends_with_every_file_whole():
    table = table_of(MANIFEST, floor_ratio=1e12)
    for shard in table.shards:
        files = (MANIFEST.coefficients[shard.step][shard.group], MANIFEST.bases[shard.group])
        first = (shard.levels[0].coefficient_bytes, shard.levels[0].basis_bytes)
        assert first == tuple(record.cuts_from_floor()[0][0] for record in files)
        assert (shard.full.coefficient_bytes, shard.full.basis_bytes) == tuple(
            record.num_bytes for record in files
        )


def test_every_level_is_a_cut_of_both_files():
    for shard in table_of(MANIFEST).shards:
        own = {end for end, _ in MANIFEST.coefficients[shard.step][shard.group].cuts_from_floor()}
        shared = {end for end, _ in MANIFEST.bases[shard.group].cuts_from_floor()}
        assert {level.coefficient_bytes for level in shard.levels} <= own
        assert {level.basis_bytes for level in shard.levels} <= shared


def test_the_floor_of_an_edit_is_the_given_part_of_its_uncompressed_state():
    floor_bytes = MANIFEST.sizes.float16_bytes / 2
    table = table_of(MANIFEST, floor_ratio=2.0)
    lowest = table_of(MANIFEST, floor_ratio=1e12).floor_bytes
    assert lowest < table.floor_bytes <= floor_bytes


def test_levels_go_below_the_floor_down_to_that_of_the_first_steps():
    """The small template has too few steps for one with the lower floor: the table's own test."""
    whole = MANIFEST.sizes.float16_bytes
    table = table_of(MANIFEST, floor_ratio=2.0, first_steps_floor_ratio=4.0)
    plain = table_of(MANIFEST, floor_ratio=2.0, first_steps_floor_ratio=2.0)
    assert table.floor_bytes == plain.floor_bytes
    assert table.bytes_at([0] * table.num_shards) <= whole / 4
    for shard, without in zip(table.shards, plain.shards, strict=True):
        assert shard.levels[shard.floor :] == without.levels
