"""Opens pictures that strangers made: bounded in bytes and pixels, one line when refused."""

import hashlib
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from intonaco.errors import PictureError

MAX_FILE_BYTES = 64 << 20
MAX_PICTURE_PIXELS = 8192 * 8192
PICTURE_FORMATS = ("PNG", "JPEG", "WEBP")

# What Pillow's parsers raise on damaged or hostile files.
DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


def open_picture(
    picture: Image.Image | str | Path,
    name: str,
    *,
    formats: tuple[str, ...] = PICTURE_FORMATS,
) -> Image.Image:
    """Return a picture, decoded, upright. Raises PictureError, which calls it `name`."""
    in_hand = isinstance(picture, Image.Image)
    opened = picture if in_hand else open_unread(Path(picture), name, formats=formats)
    try:
        opened.load()
        return opened if in_hand else ImageOps.exif_transpose(opened)
    except DAMAGE as error:
        called = name if in_hand else f"{name} {picture}"
        raise PictureError(f"{called} is damaged ({_one_line(error)}); save it again") from None
    finally:
        if not in_hand:
            opened.close()


def open_unread(path: Path, name: str, *, formats: tuple[str, ...]) -> Image.Image:
    """Return the picture in `path` with its header read and its pixels not."""
    try:
        num_bytes = path.stat().st_size
        if num_bytes > MAX_FILE_BYTES:
            raise PictureError(
                f"{name} {path} must have at most {MAX_FILE_BYTES} bytes, got {num_bytes}; shrink it"
            )
        opened = Image.open(path, formats=formats)
    except FileNotFoundError:
        raise PictureError(f"{name} {path} does not exist; check the path") from None
    except UnidentifiedImageError:
        raise PictureError(
            f"{name} {path} is not a picture in {', '.join(formats)}; save it as PNG"
        ) from None
    except DAMAGE as error:
        raise PictureError(f"{name} {path} cannot be read ({_one_line(error)})") from None
    if opened.width * opened.height > MAX_PICTURE_PIXELS:
        size = f"{opened.width} x {opened.height}"
        opened.close()
        raise PictureError(
            f"{name} {path} must have at most {MAX_PICTURE_PIXELS} pixels, got {size}; shrink it"
        )
    return opened


def picture_digest(picture: Image.Image) -> str:
    """Return sha256 (hex) over mode, size and pixels: the same for every file of one picture."""
    digest = hashlib.sha256(f"{picture.mode}:{picture.width}x{picture.height}:".encode())
    digest.update(picture.tobytes())
    return digest.hexdigest()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
