"""Encodes frames as an MP4 file, with the receipt in its comment. Needs the `video` extra."""

import importlib
import io
from collections.abc import Sequence
from typing import Any

from PIL.Image import Image

from intonaco.errors import SaveError

DEFAULT_FRAMES_PER_S = 16
CODEC = "libx264"


def encode_film(
    frames: Sequence[Image], *, comment: str, frames_per_s: int = DEFAULT_FRAMES_PER_S
) -> bytes:
    """Return the bytes of an MP4 of RGB frames, all of one size with even sides.

    Raises SaveError where PyAV is not installed, or the frames cannot be encoded.
    """
    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        raise SaveError(
            "an MP4 needs PyAV, which is not installed; install it with: pip install "
            "'intonaco[video]', or save frames as PNG"
        ) from None
    width, height = frames[0].size
    if width % 2 or height % 2:
        raise SaveError(f"an MP4 needs even sides, got {width} x {height}; save frames as PNG")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        container.metadata["comment"] = comment
        stream = container.add_stream(CODEC, rate=frames_per_s)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(frame)))
        container.mux(stream.encode())
    return buffer.getvalue()
