"""Contact sheets: where the pictures land and what stands under them."""

import numpy as np
import pytest
from PIL import Image, ImageFont

from intonaco.quality.report import PLASTER, Row, Tile, arrange, contact_sheet, mark_region, wrap

RED = (255, 0, 0)


def _tile(color=RED, size=(64, 64), caption=""):
    return Tile(image=Image.new("RGB", size, color), caption=caption)


def _count_pixels(image, color):
    return int((np.asarray(image) == np.array(color)).all(axis=-1).sum())


def test_every_picture_stands_on_the_sheet_whole():
    tiles = [_tile(color) for color in (RED, (0, 255, 0), (0, 0, 255))]
    sheet = contact_sheet(arrange(tiles, num_columns=2), tile_width_px=64)
    for tile in tiles:
        assert _count_pixels(sheet, tile.image.getpixel((0, 0))) == 64 * 64


def test_tiles_are_arranged_in_rows_of_the_asked_length_with_one_heading():
    rows = arrange([_tile() for _ in range(5)], num_columns=2, heading="five")
    assert [len(row.tiles) for row in rows] == [2, 2, 1]
    assert [row.heading for row in rows] == ["five", "", ""]


def test_a_caption_stands_under_its_picture_and_adds_height():
    plain = contact_sheet([Row(tiles=(_tile(),))], tile_width_px=64)
    captioned = contact_sheet([Row(tiles=(_tile(caption="a girl"),))], tile_width_px=64)
    assert captioned.height > plain.height
    below = np.asarray(captioned)[plain.height - 20 :]
    assert (below != np.array(PLASTER)).any()


def test_pictures_are_scaled_to_the_tile_width_and_keep_their_shape():
    sheet = contact_sheet([Row(tiles=(_tile(size=(32, 16)),))], tile_width_px=64)
    assert _count_pixels(sheet, RED) == 64 * 32


@pytest.mark.parametrize("title", ["", "a title"])
def test_a_sheet_without_rows_is_still_a_picture(title):
    assert contact_sheet([], title=title).mode == "RGB"


def test_wrapped_lines_fit_the_width():
    font = ImageFont.load_default(13)
    lines = wrap("a tall girl with red hair and a hat", font, 120)
    assert " ".join(lines) == "a tall girl with red hair and a hat"
    assert max(font.getlength(line) for line in lines) <= 120


def test_a_caption_that_is_too_long_is_cut_with_dots():
    lines = wrap("word " * 100, ImageFont.load_default(13), 100)
    assert len(lines) == 5
    assert lines[-1].endswith("...")


def test_marking_a_region_changes_only_that_region():
    picture = Image.new("RGB", (8, 8), (10, 20, 30))
    is_marked = np.zeros((8, 8), dtype=bool)
    is_marked[2:4, 2:6] = True
    changed = (np.asarray(mark_region(picture, is_marked)) != np.asarray(picture)).any(axis=-1)
    assert (changed == is_marked).all()
