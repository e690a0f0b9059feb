"""A film is an MP4 with every frame in order and its receipt in the comment."""

import io

import pytest
from PIL import Image

from intonaco.errors import SaveError
from intonaco.pipelines.film import encode_film

av = pytest.importorskip("av", reason="the video extra is not installed")


def test_a_film_holds_every_frame_in_order_and_the_receipt():
    levels = [0, 60, 120, 180, 240]
    frames = [Image.new("RGB", (32, 16), (level, level, level)) for level in levels]
    content = encode_film(frames, comment='{"seed": 7}', frames_per_s=8)
    with av.open(io.BytesIO(content)) as film:
        decoded = [frame.to_image() for frame in film.decode(video=0)]
        comment = film.metadata["comment"]
    read = [round(frame.getpixel((16, 8))[0] / 60) * 60 for frame in decoded]
    assert (read, decoded[0].size, comment) == (levels, (32, 16), '{"seed": 7}')


def test_odd_sides_are_refused():
    with pytest.raises(SaveError, match=r"needs even sides, got 33 x 16; save frames as PNG"):
        encode_film([Image.new("RGB", (33, 16))], comment="")
