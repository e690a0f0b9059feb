import numpy as np
import pytest
from PIL import Image

from intonaco.errors import PictureError
from intonaco.pipelines.mask import blend, border_distance, feather, read_mask, token_mask
from tests.support.comparison import assert_close


def test_alpha_zero_may_change_whatever_the_colour():
    mask = Image.new("RGBA", (2, 1), (255, 255, 255, 255))
    mask.putpixel((0, 0), (255, 255, 255, 0))

    assert read_mask(mask, size=(2, 1)).tolist() == [[True, False]]


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "P"])
def test_white_may_change_where_there_is_no_alpha(mode: str):
    mask = Image.new("L", (2, 1), 0)
    mask.putpixel((1, 0), 255)

    assert read_mask(mask.convert(mode), size=(2, 1)).tolist() == [[False, True]]


def test_grey_and_half_transparent_are_cut_in_the_middle():
    grey = Image.new("L", (2, 1), 127)
    grey.putpixel((1, 0), 128)
    half = Image.new("LA", (2, 1), (0, 127))
    half.putpixel((1, 0), (0, 128))

    assert read_mask(grey, size=(2, 1)).tolist() == [[False, True]]
    assert read_mask(half, size=(2, 1)).tolist() == [[True, False]]


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(PictureError, match="as large as the template, 4 x 2 pixels, got 2 x 4"):
        read_mask(Image.new("L", (2, 4)), size=(4, 2))


def test_a_token_may_change_if_any_of_its_pixels_may():
    mask_HW = np.zeros((4, 6), dtype=bool)
    mask_HW[1, 3] = True

    assert token_mask(mask_HW, token_pixels=2).tolist() == [
        [False, True, False],
        [False, False, False],
    ]


def test_distance_is_euclidean_to_the_nearest_pixel_outside():
    random = np.random.default_rng(0)
    mask_HW = random.random((24, 31)) < 0.97
    outside = np.argwhere(~mask_HW)
    places = np.stack(np.meshgrid(np.arange(24), np.arange(31), indexing="ij"), axis=-1)
    every = np.sqrt(((places[:, :, None] - outside) ** 2).sum(axis=-1)).min(axis=2)

    assert_close(
        border_distance(mask_HW, limit=5),
        np.minimum(every, 5),
        atol=1e-12,
        why="square roots of equal integers",
    )


def test_the_pictures_edge_is_no_border():
    assert (border_distance(np.ones((5, 5), dtype=bool), limit=3) == 3).all()


def test_feather_rises_inside_the_mask_from_zero_to_one():
    mask_HW = np.zeros((1, 20), dtype=bool)
    mask_HW[:, 5:] = True

    weight = feather(mask_HW, width_pixels=6)[0]

    assert (weight[:5] == 0).all()
    assert (np.diff(weight[4:12]) > 0).all()
    assert (weight[11:] == 1).all()


def test_feather_of_no_width_is_the_mask():
    mask_HW = np.array([[False, True]])

    assert feather(mask_HW, width_pixels=0).tolist() == [[0.0, 1.0]]


def test_blend_is_exact_at_both_ends():
    random = np.random.default_rng(0)
    below, above = random.integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
    weight = np.zeros((4, 4))
    weight[:, 2:] = 1

    mixed = np.asarray(blend(Image.fromarray(below), Image.fromarray(above), weight))

    assert np.array_equal(mixed[:, :2], below[:, :2])
    assert np.array_equal(mixed[:, 2:], above[:, 2:])


def test_feather_leaves_no_step_at_the_border():
    # The hardest case: black over white. A hard border steps by 255; over 6 pixels the first step
    # is smoothstep(1 / 7) of that, 5.5 %.
    mask_HW = np.zeros((16, 40), dtype=bool)
    mask_HW[:, 20:] = True
    white, black = Image.new("RGB", (40, 16), "white"), Image.new("RGB", (40, 16), "black")

    mixed = np.asarray(blend(white, black, feather(mask_HW, width_pixels=6))).astype(int)

    assert mixed[8, 19, 0] - mixed[8, 20, 0] == 14
