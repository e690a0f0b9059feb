import math

import numpy as np
import pytest
from PIL import Image

from intonaco.errors import PictureError
from intonaco.quality.metrics import border_step, psnr, ssim
from tests.support.comparison import assert_close

GREY = Image.new("RGB", (16, 16), (100, 100, 100))


def test_equal_pictures_have_infinite_psnr_and_ssim_one():
    assert (psnr(GREY, GREY), ssim(GREY, GREY)) == (math.inf, 1.0)


def test_psnr_of_a_constant_error_follows_the_definition():
    brighter = Image.new("RGB", (16, 16), (105, 105, 105))

    expected = 20 * math.log10(255 / 5)
    assert_close(psnr(brighter, GREY), expected, atol=1e-9, why="float64 rounding")


def test_psnr_over_a_mask_sees_only_the_mask():
    half = Image.new("RGB", (16, 16), (100, 100, 100))
    half.paste((110, 110, 110), (8, 0, 16, 16))
    mask_HW = np.zeros((16, 16), dtype=bool)
    mask_HW[:, 8:] = True

    assert psnr(half, GREY, mask_HW=~mask_HW) == math.inf
    assert psnr(half, GREY, mask_HW=mask_HW) < psnr(half, GREY)


def test_ssim_falls_when_structure_is_lost():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)

    assert ssim(Image.fromarray(pixels), GREY) < 0.5


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_pictures_of_different_sizes_are_refused(measure):
    with pytest.raises(PictureError, match="one size to be compared, got 16 x 16 and 8 x 16"):
        measure(GREY, Image.new("RGB", (8, 16)))


def test_an_empty_mask_is_refused():
    with pytest.raises(PictureError, match="with a True pixel"):
        psnr(GREY, GREY, mask_HW=np.zeros((16, 16), dtype=bool))


def test_border_step_is_the_jump_at_the_masks_border():
    half = Image.new("RGB", (16, 16), (100, 100, 100))
    half.paste((130, 130, 130), (8, 0, 16, 16))
    mask_HW = np.zeros((16, 16), dtype=bool)
    mask_HW[:, 8:] = True

    assert border_step(half, mask_HW) == 30.0
    assert border_step(half, np.ones((16, 16), dtype=bool)) == 0.0
