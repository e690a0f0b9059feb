"""How near two pictures are: PSNR over a picture or a part of it, SSIM over a picture."""

import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.errors import PictureError

PEAK = 255.0


def psnr(picture: Image, reference: Image, *, mask_HW: NDArray[np.bool_] | None = None) -> float:
    """Return the peak signal-to-noise ratio in dB; infinity for equal pictures.

    With `mask_HW`, (H, W) bool, only its True pixels count. Raises PictureError if sizes differ.
    """
    difference = _pixels(picture, reference, mask_HW)
    squared_error = float(np.mean(difference**2))
    return math.inf if squared_error == 0 else 10 * math.log10(PEAK**2 / squared_error)


def ssim(picture: Image, reference: Image) -> float:
    """Return the structural similarity, 1 for equal pictures: 7 x 7 windows, mean over channels.

    Needs the extra `quality`. Raises PictureError if sizes differ.
    """
    _check_sizes(picture, reference)
    measures: Any = import_module("skimage.metrics")
    return float(
        measures.structural_similarity(
            np.asarray(picture.convert("RGB")),
            np.asarray(reference.convert("RGB")),
            channel_axis=2,
            data_range=PEAK,
        )
    )


def border_step(picture: Image, mask_HW: NDArray[np.bool_]) -> float:
    """Return the mean absolute step, in grey values, between neighbours on either side of a mask.

    Compare it with the same step in the template: where an edit shows no seam they are alike.
    0 if the mask has no border inside the picture.
    """
    values = np.asarray(picture.convert("RGB"), dtype=np.float64)
    steps: list[NDArray[np.float64]] = []
    for axis in (0, 1):
        crosses = np.diff(mask_HW.astype(np.int8), axis=axis) != 0
        steps.append(np.abs(np.diff(values, axis=axis)).mean(axis=2)[crosses])
    every = np.concatenate(steps)
    return float(every.mean()) if every.size else 0.0


def _pixels(
    picture: Image, reference: Image, mask_HW: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    _check_sizes(picture, reference)
    left = np.asarray(picture.convert("RGB"), dtype=np.float64)
    right = np.asarray(reference.convert("RGB"), dtype=np.float64)
    if mask_HW is None:
        return left - right
    if mask_HW.shape != left.shape[:2] or not mask_HW.any():
        raise PictureError(
            f"mask_HW must be {left.shape[:2]} with a True pixel, got {mask_HW.shape} with "
            f"{int(mask_HW.sum())}; take the mask of this picture"
        )
    return (left - right)[mask_HW]


def _check_sizes(picture: Image, reference: Image) -> None:
    if picture.size != reference.size:
        raise PictureError(
            f"pictures must be of one size to be compared, got {picture.width} x {picture.height} "
            f"and {reference.width} x {reference.height}; resize one"
        )
