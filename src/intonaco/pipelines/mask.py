"""Masks: which pixels an edit may change, which tokens that touches, how the border is blended.

Pure functions on numpy arrays. Shape letters: H x W pixels, Y x X tokens; True = may change.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from intonaco.errors import PictureError

THRESHOLD = 128


def read_mask(mask: Image.Image, *, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the (H, W) pixels that may change.

    With an alpha channel: those of alpha below 128 (0 = edit). Without: those of grey value 128 or
    more (white = edit). Raises PictureError if the mask is not of `size` (width, height).
    """
    if mask.size != size:
        raise PictureError(
            f"mask must be as large as the template, {size[0]} x {size[1]} pixels, got "
            f"{mask.width} x {mask.height}; resize the mask"
        )
    if mask.has_transparency_data:
        alpha_HW = np.asarray(mask.convert("RGBA"))[:, :, 3]
        return np.asarray(alpha_HW < THRESHOLD, dtype=np.bool_)
    return np.asarray(np.asarray(mask.convert("L")) >= THRESHOLD, dtype=np.bool_)


def token_mask(mask_HW: NDArray[np.bool_], *, token_pixels: int) -> NDArray[np.bool_]:
    """Return the (Y, X) tokens of which any pixel may change; token 0 here is edited:

    pixels  . . . X | . . . .      tokens  X  .
            . . . . | . . . .
    """
    height, width = mask_HW.shape
    grid = mask_HW.reshape(
        height // token_pixels, token_pixels, width // token_pixels, token_pixels
    )
    return np.asarray(grid.any(axis=(1, 3)), dtype=np.bool_)


def border_distance(mask_HW: NDArray[np.bool_], *, limit: int) -> NDArray[np.float64]:
    """Return each pixel's distance, up to `limit`, to the nearest pixel that may not change.

    0 outside the mask; the picture's own edge is no border. Euclidean, between pixel centres.
    """
    far = float(limit)
    straight = np.where(mask_HW, far, 0.0)
    vertical = straight
    for shift in range(1, limit):
        for moved in _shifted(straight, shift, axis=0, fill=far):
            vertical = np.minimum(vertical, moved + shift)
    squared = vertical**2
    for shift in range(1, limit):
        for moved in _shifted(vertical, shift, axis=1, fill=far):
            squared = np.minimum(squared, moved**2 + shift**2)
    return np.minimum(np.sqrt(squared), far)


def feather(mask_HW: NDArray[np.bool_], *, width_pixels: int) -> NDArray[np.float64]:
    """Return the (H, W) weight of the drawn picture: 0 outside the mask, rising to 1 inside it.

    The rise lies inside the mask, over `width_pixels`, with zero slope at both ends (smoothstep).
    0 gives a hard border.
    """
    if width_pixels == 0:
        return mask_HW.astype(np.float64)
    reach = width_pixels + 1
    rise = border_distance(mask_HW, limit=reach) / reach
    return rise * rise * (3.0 - 2.0 * rise)


def blend(template: Image.Image, drawn: Image.Image, weight_HW: NDArray[np.float64]) -> Image.Image:
    """Return template + weight * (drawn - template); where the weight is 0 or 1, exactly one."""
    below = np.asarray(template, dtype=np.float64)
    above = np.asarray(drawn, dtype=np.float64)
    mixed = below + weight_HW[:, :, np.newaxis] * (above - below)
    return Image.fromarray(np.rint(mixed).astype(np.uint8))


def _shifted(
    values: NDArray[np.float64], shift: int, *, axis: int, fill: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `values` moved by `shift` towards either end of `axis`, `fill` moving in."""
    margins = [(0, 0)] * values.ndim
    margins[axis] = (shift, shift)
    padded = np.moveaxis(np.pad(values, margins, constant_values=fill), axis, 0)
    forward, backward = padded[: -2 * shift], padded[2 * shift :]
    return np.moveaxis(forward, 0, axis), np.moveaxis(backward, 0, axis)
