import io

import pytest
from PIL import Image

from intonaco.errors import FieldError
from intonaco.serving.pixels import decode, decode_mask, encode, num_pixels, to_image, to_raw


def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    content = io.BytesIO()
    image.save(content, format=kind)
    return content.getvalue()


def test_pixels_go_through_unchanged():
    image = Image.effect_noise((7, 5), 90).convert("RGB")
    assert to_image(to_raw(image)).tobytes() == image.tobytes()


def test_the_header_alone_tells_the_size():
    assert num_pixels(file_of(Image.effect_noise((70, 50), 9))[:60], "image") == 3500


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"<svg/>", b"%!PS-Adobe-3.0 EPSF-3.0"])
def test_other_files_are_refused_by_the_name_of_the_field(content):
    with pytest.raises(FieldError, match=r"^mask must be a picture file \(PNG, JPEG, WEBP\)"):
        num_pixels(content, "mask")


def test_a_damaged_picture_is_refused():
    with pytest.raises(FieldError, match="is damaged"):
        decode(file_of(Image.effect_noise((64, 64), 90))[:2000], "image")


def test_the_alpha_of_a_mask_says_what_may_change():
    mask = Image.new("RGBA", (2, 1), (255, 255, 255, 255))
    mask.putpixel((1, 0), (255, 255, 255, 0))
    raw = decode_mask(file_of(mask), "mask", size=(2, 1), is_white=False)
    assert raw.pixels == bytes([0, 255])


def test_white_may_change_where_the_field_says_so():
    mask = Image.new("L", (2, 1))
    mask.putpixel((1, 0), 255)
    raw = decode_mask(file_of(mask), "mask", size=(2, 1), is_white=True)
    assert raw.pixels == bytes([0, 255])


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_a_picture_is_encoded_in_the_format_asked_for(kind):
    raw = to_raw(Image.new("RGB", (8, 8), "red"))
    content = encode(raw, output_format=kind, compression=None, receipt="")
    assert Image.open(io.BytesIO(content)).format == kind.upper()
