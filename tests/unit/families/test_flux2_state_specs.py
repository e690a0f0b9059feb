"""Buckets of edited tokens: what enters a sparse program's key, and what never does."""

from intonaco.families.flux2_state_specs import edited_bucket, sparse_shape


def test_a_bucket_holds_its_edit_and_wastes_an_eighth_at_most():
    for num_tokens in range(1, 1025):
        bucket = edited_bucket(num_tokens, num_drawn_tokens=1024)
        assert num_tokens <= bucket <= max(num_tokens + 7, num_tokens * 9 / 8)


def test_a_bucket_is_never_larger_than_the_picture():
    assert max(edited_bucket(count, num_drawn_tokens=23) for count in range(1, 24)) == 23


def test_a_doubling_of_edited_tokens_has_eight_buckets():
    buckets = {edited_bucket(count, num_drawn_tokens=1024) for count in range(257, 513)}

    assert sorted(buckets) == [288, 320, 352, 384, 416, 448, 480, 512]


def test_bucket_sizes_are_their_own_buckets():
    buckets = {edited_bucket(count, num_drawn_tokens=1024) for count in range(1, 1025)}

    assert all(edited_bucket(one, num_drawn_tokens=1024) == one for one in buckets)


def test_queries_are_edited_and_reference_tokens():
    shape = sparse_shape(
        num_drawn_tokens=144, num_edited_tokens=15, num_reference_tokens=30, num_text_tokens=40
    )

    assert (shape.num_edited_tokens, shape.num_reference_tokens) == (16, 36)
    assert shape.queries.length == 40 + 16 + 36
