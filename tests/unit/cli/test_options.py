"""Option texts become values, or errors that name the option, the text and an example."""

import pytest

from intonaco.cli.options import parse_size, parse_whole_number
from intonaco.errors import RequestError


@pytest.mark.parametrize("text", ["192x128", "192X128", " 192x128 ", "192\u00d7128"])
def test_a_size_is_width_then_height(text):
    assert parse_size(text) == (192, 128)


@pytest.mark.parametrize(
    "text", ["192", "192x", "x192", "-1x2", "1.5x2", "nanxnan", "", "9999999x1"]
)
def test_any_other_size_is_refused_with_an_example(text):
    with pytest.raises(RequestError, match=r"--size must be WIDTHxHEIGHT.*--size 192x192"):
        parse_size(text)


def test_the_example_of_the_size_error_is_accepted():
    with pytest.raises(RequestError) as caught:
        parse_size("big")
    assert parse_size(str(caught.value).rpartition("--size ")[2]) == (192, 192)


@pytest.mark.parametrize("text", ["nan", "inf", "1.5", "seven", "", "0x10", "1e3", "9" * 5000])
def test_a_seed_that_is_no_whole_number_is_refused_in_one_short_line(text):
    with pytest.raises(RequestError) as caught:
        parse_whole_number(text, option="--seed", example=7)
    assert str(caught.value).startswith("--seed must be a whole number, got ")
    assert str(caught.value).endswith("for example --seed 7")
    assert len(str(caught.value)) < 120


def test_options_left_out_stay_none():
    assert parse_size(None) is None
    assert parse_whole_number(None, option="--seed", example=7) is None
