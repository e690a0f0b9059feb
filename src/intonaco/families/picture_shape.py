"""What the programs of a picture or film depend on besides the checkpoint. Imports no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureShape:
    """The shape of what is drawn.

    Attributes:
        size: (width, height) in pixels.
        num_frames: 1 for a picture.
        reference_sizes: (width, height) of each reference picture.
        is_edit: whether pictures of `size` are edited too, which encodes them.
        num_edited_tokens: tokens that a prepared template leaves to edits, where what is drawn are
            edits on one; None = no template.
    """

    size: tuple[int, int]
    num_frames: int = 1
    reference_sizes: tuple[tuple[int, int], ...] = ()
    is_edit: bool = False
    num_edited_tokens: int | None = None
