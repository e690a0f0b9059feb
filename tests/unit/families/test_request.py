import numpy as np
import pytest

from intonaco.errors import RequestError
from intonaco.families.request import MAX_SEED, GenerateRequest

GOOD = {"prompt": "a girl", "seed": 7, "width": 64, "height": 64, "num_steps": 4}


@pytest.mark.parametrize("setting", ["seed", "width", "height", "num_steps", "num_frames"])
@pytest.mark.parametrize("value", [True, 7.0, float("nan"), "7", None, [7]])
def test_what_is_no_whole_number_is_refused_by_name(setting: str, value: object):
    with pytest.raises(RequestError, match=rf"^{setting} must be a whole number"):
        GenerateRequest(**{**GOOD, setting: value})


@pytest.mark.parametrize(
    ("setting", "value", "nearest"),
    [
        ("seed", -1, 0),
        ("seed", MAX_SEED + 1, MAX_SEED),
        ("num_steps", 0, 1),
        ("num_steps", 1001, 1000),
        ("width", 0, 1),
        ("height", 10**30, 16384),
        ("image_index", -1, 0),
    ],
)
def test_a_number_out_of_range_is_refused_and_the_advice_is_accepted(setting, value, nearest):
    with pytest.raises(RequestError, match=f"the nearest that works is {nearest}$"):
        GenerateRequest(**{**GOOD, setting: value})
    GenerateRequest(**{**GOOD, setting: nearest})


def test_numpy_integers_become_plain_ones():
    request = GenerateRequest(**{**GOOD, "seed": np.int64(7)})

    assert (request.seed, type(request.seed)) == (7, int)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 101.0, "4", True])
def test_guidance_scale_must_be_a_finite_number_in_range(value: object):
    with pytest.raises(RequestError, match=r"^guidance_scale must be a number in 0\.\.100"):
        GenerateRequest(**GOOD, guidance_scale=value)


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [
        (None, "must be a string, got NoneType"),
        ("a" * 20_001, "at most 20000 characters, got 20001"),
        ("a \ud800 girl", "character 2 is a lone surrogate"),
    ],
)
def test_a_prompt_that_is_no_bounded_unicode_text_is_refused(prompt: object, rule: str):
    with pytest.raises(RequestError, match=rule):
        GenerateRequest(**{**GOOD, "prompt": prompt})


def test_every_message_is_one_line():
    with pytest.raises(RequestError) as caught:
        GenerateRequest(**{**GOOD, "seed": "seven\n" * 100})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
