"""A drawn picture with its receipt, and saving it: whole or not at all."""

import io
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL.Image import Image

from intonaco.errors import SaveError
from intonaco.pipelines.film import encode_film
from intonaco.pipelines.receipt import Receipt, png_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a model drew.

    Attributes:
        image: RGB; for a film the first frame.
        frames: all of it; one for a picture.
    """

    image: Image
    receipt: Receipt
    warnings: tuple[str, ...] = ()
    frames: tuple[Image, ...] = ()

    def save(self, path: str | Path, *, receipt_beside: bool = False) -> Path:
        """Write a PNG that carries the receipt; with `receipt_beside` also `NAME.json` next to it.

        A name that ends in .mp4 writes all frames as a film, the receipt in its comment.

        Written beside and renamed, so a reader never sees half a file. Raises SaveError.
        """
        target = Path(path)
        if target.suffix.lower() == ".mp4":
            contents = {target: encode_film(self.frames, comment=self.receipt.to_json())}
        elif target.suffix.lower() == ".png":
            encoded = io.BytesIO()
            self.image.save(encoded, format="PNG", pnginfo=png_text(self.receipt))
            contents = {target: encoded.getvalue()}
        else:
            raise SaveError(
                f"a picture's file name must end in .png, got {target.name!r}; receipts live in PNG "
                f"text, use {target.with_suffix('.png').name!r}"
            )
        if receipt_beside:
            beside = target.with_suffix(".json")
            contents[beside] = (self.receipt.to_json(indent=2) + "\n").encode()
        write_files(contents)
        return target


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write all of `contents` beside their targets, then rename them; on failure leave no trace."""
    written: list[tuple[Path, Path]] = []
    try:
        for target, content in contents.items():
            written.append((_write_beside(target, content), target))
        for temporary, target in written:
            temporary.replace(target)
    except OSError as error:
        raise SaveError(
            f"cannot write {next(iter(contents))} ({error.strerror or error}); choose an existing, "
            "writable folder with free space"
        ) from None
    finally:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)  # gone already where it was renamed


def _write_beside(target: Path, content: bytes) -> Path:
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        with temporary.open("xb") as file:
            file.write(content)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
