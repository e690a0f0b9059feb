"""A template's clean latents as a file: float32 numbers, row by row, in checked chunks."""

import struct

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError, PackDamagedError, PackFormatError
from intonaco.template.pack_format import ChunkReader, ChunkWriter, Opening, Role

SIZES = struct.Struct("<III")
NUM_DIMS = SIZES.size // 4
MAX_LATENT_VALUES = 1 << 26
CHUNK_BYTES = 1 << 15


def write_latents(latents: NDArray[np.float32]) -> bytes:
    """Return latents (1, tokens, channels), or of another three sizes, as a file."""
    if latents.ndim != NUM_DIMS or not 1 <= latents.size <= MAX_LATENT_VALUES:
        raise PackBoundsError(
            f"latents must have {NUM_DIMS} sizes and 1..{MAX_LATENT_VALUES} numbers, got shape "
            f"{latents.shape}; store one picture"
        )
    writer = ChunkWriter(Opening(role=Role.LATENTS, header=SIZES.pack(*latents.shape)))
    content = latents.astype("<f4").tobytes()
    for start in range(0, len(content), CHUNK_BYTES):
        writer.add(content[start : start + CHUNK_BYTES])
    return writer.content()


def read_latents(content: bytes, *, name: str) -> NDArray[np.float32]:
    """Return the latents in a whole file. Raises PackError, which calls it `name`."""
    reader = ChunkReader(role=Role.LATENTS, name=name)
    numbers = b"".join(reader.feed(content))
    if reader.opening is None or reader.num_pending_bytes:
        raise PackDamagedError(f"{name}: ends inside a chunk; fetch it again")
    if len(reader.opening.header) != SIZES.size:
        raise PackFormatError(
            f"{name}: the header of latents has {SIZES.size} bytes, got "
            f"{len(reader.opening.header)}; fetch it again"
        )
    sizes = SIZES.unpack(reader.opening.header)
    # Compared before the array is made: the bytes are there already, so nothing new is allocated.
    num_values = sizes[0] * sizes[1] * sizes[2]
    if not 1 <= num_values <= MAX_LATENT_VALUES or len(numbers) != 4 * num_values:
        raise PackBoundsError(
            f"{name}: {sizes} float32 numbers take {4 * num_values} bytes, got {len(numbers)}; "
            "fetch it again"
        )
    latents = np.frombuffer(numbers, dtype="<f4").reshape(sizes).astype(np.float32)
    if not np.isfinite(latents).all():
        raise PackFormatError(f"{name}: latents must be finite numbers; build the template again")
    return latents
