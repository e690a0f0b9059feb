"""The lengths that FLUX.2's denoiser programs are compiled for, with and without references.

Without references a program has exactly the picture's tokens. With them the sequence is padded to a
bucket, a quarter of the picture's own tokens wide, and how much of it is valid is a runtime value.
So a reference of the picture's size, or of a half or a quarter of it, is not padded at all, and at
most a quarter of a picture is computed for nothing. Imports no torch.
"""

from dataclasses import dataclass

BUCKETS_PER_PICTURE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiserShape:
    """The lengths that a denoiser program is compiled for.

    Attributes:
        num_image_tokens: I, those of references and padding included.
        is_bounded: whether the end of the sequence may be padding.
    """

    num_image_tokens: int
    num_text_tokens: int
    is_bounded: bool = False

    @property
    def length(self) -> int:
        """L, the length of the joint sequence."""
        return self.num_image_tokens + self.num_text_tokens


def denoiser_shape(
    *, num_drawn_tokens: int, num_reference_tokens: int, num_text_tokens: int
) -> DenoiserShape:
    """Return the shape that serves a picture of so many tokens beside references of so many.

    >>> denoiser_shape(num_drawn_tokens=16, num_reference_tokens=5, num_text_tokens=8).length
    32
    """
    bucket = -(-num_drawn_tokens // BUCKETS_PER_PICTURE)
    num_buckets = -(-num_reference_tokens // bucket)
    return DenoiserShape(
        num_image_tokens=num_drawn_tokens + num_buckets * bucket,
        num_text_tokens=num_text_tokens,
        is_bounded=num_reference_tokens > 0,
    )
