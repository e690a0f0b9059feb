"""Pictures at the server's two borders: files of clients in, files for clients out.

Nothing is opened by name: only bytes that came with the request are read, and only after their
header was found small enough.
"""

import io

from PIL import Image, ImageOps

from intonaco.errors import FieldError
from intonaco.pipelines.mask import read_mask
from intonaco.pipelines.reading import DAMAGE, PICTURE_FORMATS
from intonaco.pipelines.receipt import Receipt, png_text
from intonaco.serving.messages import PictureHeader, RawPicture

OUTPUT_FORMATS = ("png", "jpeg", "webp")
DEFAULT_COMPRESSION = 95
# Half the time of level 3, files 6 % larger.
PNG_COMPRESS_LEVEL = 1
_MODES = {"L": "L", "RGB": "RGB"}


def to_image(raw: RawPicture) -> Image.Image:
    """Return `raw` as a Pillow picture."""
    header = raw.header
    return Image.frombytes(_MODES[header.mode], (header.width, header.height), raw.pixels)


def to_raw(image: Image.Image) -> RawPicture:
    """Return an "L" or "RGB" picture as pixels."""
    mode = "L" if image.mode == "L" else "RGB"
    header = PictureHeader(mode=mode, width=image.width, height=image.height)
    return RawPicture(header=header, pixels=image.convert(mode).tobytes())


def num_pixels(content: bytes, field: str) -> int:
    """Return width x height of a picture file from its header alone. Raises FieldError."""
    with _open(content, field) as opened:
        return opened.width * opened.height


def decode(content: bytes, field: str) -> Image.Image:
    """Return the picture in `content`, upright. Call `num_pixels` first. Raises FieldError."""
    with _open(content, field) as opened:
        try:
            opened.load()
            return ImageOps.exif_transpose(opened)
        except (*DAMAGE, Warning) as error:
            raise _refused(field, f"is damaged ({_one_line(error)}); save it again") from None


def decode_mask(content: bytes, field: str, *, size: tuple[int, int], is_white: bool) -> RawPicture:
    """Return a mask as "L" pixels, 255 where the edit may change the picture.

    `is_white`: white = edit. Otherwise alpha 0 = edit, and a mask without alpha is refused.
    """
    mask = decode(content, field)
    if is_white:
        mask = mask.convert("L")
    elif not mask.has_transparency_data:
        raise _refused(
            field,
            "must have an alpha channel, 0 = edit, and has none; add one, or send "
            "mask_format=white for white = edit",
        )
    if mask.size != size:
        raise _refused(
            field,
            f"must be as large as the picture, {size[0]}x{size[1]}, got {mask.width}x{mask.height}",
        )
    return to_raw(Image.fromarray(read_mask(mask, size=size)).convert("L"))


def encode(raw: RawPicture, *, output_format: str, compression: int | None, receipt: str) -> bytes:
    """Return `raw` as a file. A PNG carries `receipt` (JSON, may be empty); the others do not."""
    image, target = to_image(raw), io.BytesIO()
    if output_format == "png":
        text = png_text(Receipt.from_json(receipt)) if receipt else None
        image.save(target, format="PNG", pnginfo=text, compress_level=PNG_COMPRESS_LEVEL)
    else:
        quality = DEFAULT_COMPRESSION if compression is None else compression
        image.save(target, format=output_format.upper(), quality=quality)
    return target.getvalue()


def _open(content: bytes, field: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(content), formats=PICTURE_FORMATS)
    except (*DAMAGE, Warning):
        kinds = ", ".join(PICTURE_FORMATS)
        raise _refused(
            field, f"must be a picture file ({kinds}) of sane size; save it as PNG"
        ) from None


def _refused(field: str, rule: str) -> FieldError:
    return FieldError(field, f"{field} {rule}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
