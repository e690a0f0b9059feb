"""What a feather of 6 pixels promises at the border of an edit, whatever was drawn."""

FIRST_WEIGHT = 19 / 343  # smoothstep(1 / 7): the share that the first pixel inside takes
ROUNDING = 0.5  # half a grey value


def assert_no_seam(*, own: float, hard: float, feathered: float) -> None:
    """Compare mean steps across the border: the template's own, a hard border's, the feathered one.

    The first pixel inside is template + weight * (drawn - template), and drawn - template there is
    at most the hard step plus the template's own, so the feathered step is bounded by both.
    """
    bound = own + FIRST_WEIGHT * (hard + own) + ROUNDING
    assert feathered <= bound, f"step {feathered:.2f}, own {own:.2f}, hard {hard:.2f}: {bound=:.2f}"
