"""Importance: squared attention of the right queries on the right rows, and its statistics."""

import math

import numpy as np
import pytest
import torch

from intonaco.errors import PackDamagedError
from intonaco.template.importance import (
    Importance,
    ImportanceTap,
    overlap,
    read_importance,
    skew,
    squared_attention,
)
from tests.support.comparison import assert_close

WHY = "float32 softmax in two orders"


def test_squared_attention_is_what_loops_over_queries_and_heads_give():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(length, 2, 4, generator=generator) for length in (3, 5))
    expected = torch.zeros(5)
    for position in range(3):
        for head in range(2):
            weights = (key[:, head] @ query[position, head] / 2).softmax(0)
            expected += weights**2 / 3

    assert_close(squared_attention(query, key), expected, atol=1e-6, why=WHY)


@pytest.mark.parametrize("has_text_queries", [False, True])
def test_a_tap_counts_edited_and_if_asked_text_queries_on_template_rows(has_text_queries):
    generator = torch.Generator().manual_seed(0)
    # Two text tokens, three image tokens of which the second is edited, one reference token.
    query, key = (torch.randn(6, 2, 4, generator=generator) for _ in range(2))
    tap = ImportanceTap(
        found_SBN=np.zeros((1, 1, 2), np.float32),
        is_edited_I=np.array([False, True, False]),
        has_text_queries=has_text_queries,
    )
    tap.write(0, 0, query, key, key, num_text_tokens=2)

    queries = [0, 1, 3] if has_text_queries else [3]
    assert_close(
        tap.found_SBN[0, 0], squared_attention(query[queries], key)[[2, 4]], atol=1e-6, why=WHY
    )


def test_skew_is_the_share_of_the_top_tenth():
    one_heavy = np.ones((1, 1, 10), np.float32)
    one_heavy[..., 3] = 11

    assert skew(one_heavy) == pytest.approx(0.55)


def test_skew_of_equal_tokens_is_a_tenth():
    assert skew(np.ones((2, 3, 20), np.float32)) == pytest.approx(0.1)


def test_requests_with_the_same_top_tokens_overlap_wholly():
    ranks = np.arange(20, dtype=np.float32).reshape(1, 1, 1, 20)

    assert overlap(np.concatenate([ranks, 2 * ranks])) == 1.0


def test_requests_with_other_top_tokens_do_not_overlap():
    ranks = np.arange(20, dtype=np.float32).reshape(1, 1, 1, 20)

    assert overlap(np.concatenate([ranks, -ranks])) == 0.0


def test_one_request_has_no_overlap():
    assert math.isnan(overlap(np.ones((1, 1, 1, 20), np.float32)))


def test_what_is_saved_is_read_back(tmp_path):
    values = np.random.default_rng(0).random((2, 3, 4, 5), dtype=np.float32)
    Importance(per_request_RSBN=values).save(tmp_path / "importance.safetensors")

    found = read_importance(tmp_path / "importance.safetensors")
    assert (found.per_request_RSBN == values).all()


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "importance.safetensors").write_bytes(b"no tensors here")

    with pytest.raises(PackDamagedError, match="holds no importance"):
        read_importance(tmp_path / "importance.safetensors")
