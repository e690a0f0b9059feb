"""Pictures that strangers made: read within bounds, or refused in one line."""

import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from intonaco.errors import PictureError
from intonaco.pipelines.reading import open_picture, picture_digest


def png_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def png_of(width: int, height: int, pixels: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(pixels))
    return b"\x89PNG\r\n\x1a\n" + chunks + png_chunk(b"IEND", b"")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.png"
    Image.effect_noise((64, 64), 80).convert("RGB").save(path)
    return path


def test_a_picture_is_read_decoded(good: Path):
    with Image.open(good) as expected:
        assert open_picture(good, "reference").tobytes() == expected.tobytes()


def test_a_picture_in_hand_is_taken_as_it_is():
    picture = Image.new("RGB", (4, 4))
    assert open_picture(picture, "reference") is picture


def test_a_picture_in_hand_that_was_never_decoded_is_refused_too(good: Path):
    content = good.read_bytes()
    good.write_bytes(content[: len(content) // 2])

    with (
        Image.open(good) as lazy,
        pytest.raises(PictureError, match=r"^template is damaged"),
    ):
        open_picture(lazy, "template")


def test_a_photo_is_turned_upright(tmp_path: Path):
    path = tmp_path / "photo.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    Image.new("RGB", (8, 4)).save(path, exif=exif)

    assert open_picture(path, "reference").size == (4, 8)


HOSTILE = {
    "absent": (None, "does not exist"),
    "empty": (b"", "is not a picture in PNG, JPEG, WEBP"),
    "text": (b"hello", "is not a picture in PNG, JPEG, WEBP"),
    "another format": (b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "is not a picture in PNG"),
    "signature only": (b"\x89PNG\r\n\x1a\n", "(is not a picture|cannot be read)"),
    "claims 30000 x 30000": (
        png_of(30_000, 30_000, b""),
        "(cannot be read|at most 67108864 pixels)",
    ),
    "claims 12000 x 6000": (
        png_of(12_000, 6_000, b""),
        "at most 67108864 pixels, got 12000 x 6000",
    ),
    "no pixels": (png_of(64, 64, b""), "is damaged"),
    "text chunk that inflates": (
        png_of(8, 8, b"")[:33] + png_chunk(b"zTXt", b"k\0\0" + zlib.compress(b"x" * (8 << 20))),
        "(is not a picture|cannot be read|is damaged)",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, name: str):
    content, message = HOSTILE[name]
    path = tmp_path / "hostile.png"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(PictureError, match=message) as caught:
        open_picture(path, "references[0]")
    assert str(caught.value).startswith("references[0] ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_png_is_refused(good: Path, share: float):
    content = good.read_bytes()
    good.write_bytes(content[: int(len(content) * share)])

    with pytest.raises(PictureError, match=r"(is damaged|cannot be read|is not a picture)"):
        open_picture(good, "template")


def test_a_file_of_too_many_bytes_is_not_even_opened(tmp_path: Path):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)

    with pytest.raises(PictureError, match="at most 67108864 bytes, got 67108865"):
        open_picture(path, "mask")


def test_a_digest_is_of_pixels_and_size_not_of_the_file(good: Path, tmp_path: Path):
    picture = open_picture(good, "picture")
    again = tmp_path / "again.png"
    picture.save(again, compress_level=0)

    assert picture_digest(open_picture(again, "picture")) == picture_digest(picture)
    assert picture_digest(Image.new("RGB", (2, 4))) != picture_digest(Image.new("RGB", (4, 2)))
