"""Small template states with the make-up of real ones: low rank, alike from step to step."""

import numpy as np
from numpy.typing import NDArray

STEPS, BLOCKS, ROWS, WIDTH = 4, 2, 20, 32


def make_states(seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return keys and values (S, B, N, d)."""
    random = np.random.default_rng(seed)
    made: list[NDArray[np.float32]] = []
    for _ in range(2):
        basis = random.standard_normal((BLOCKS, 8, WIDTH)) * 2.0 ** -np.arange(8)[:, None]
        still = random.standard_normal((BLOCKS, ROWS, 8))
        drift = 0.2 * random.standard_normal((STEPS, BLOCKS, ROWS, 8)).cumsum(axis=0)
        noise = 0.01 * random.standard_normal((STEPS, BLOCKS, ROWS, WIDTH))
        mean = random.standard_normal((BLOCKS, 1, WIDTH))
        made.append(((still + drift) @ basis + mean + noise).astype(np.float32))
    return made[0], made[1]
