"""One way to compare numbers with a tolerance: it asks for the reason and reports the worst place."""

import numpy as np


def assert_close(actual, expected, *, atol: float, why: str) -> None:
    """Fail unless every |actual - expected| <= atol; `why` says where atol comes from."""
    actual_array, expected_array = _as_float(actual), _as_float(expected)
    assert actual_array.shape == expected_array.shape, (
        f"shapes differ: {actual_array.shape} against {expected_array.shape}"
    )
    difference = np.abs(actual_array - expected_array)
    if (difference <= atol).all():  # NaN compares as not close
        return
    worst = np.unravel_index(np.nan_to_num(difference, nan=np.inf).argmax(), difference.shape)
    place = tuple(int(index) for index in worst)
    raise AssertionError(
        f"max |difference| {difference[worst]:.3e}, mean {difference.mean():.3e}, allowed {atol:.3e} "
        f"({why}); worst at {place}: {actual_array[worst]!r} against {expected_array[worst]!r}"
    )


def _as_float(values) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().float().numpy()
    return np.asarray(values, dtype=np.float64)
