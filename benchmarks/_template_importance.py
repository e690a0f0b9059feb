"""How unequal template tokens are: whose errors at INT2 spoil the picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL.Image import Image

from benchmarks._template_codecs import Measured
from benchmarks._template_edits import ArrayState, compare, draw, with_source
from benchmarks._template_requests import Case
from intonaco.template.baselines import uniform

TOP_SHARE = 0.1


def error_shares(
    family: Any,
    state: Any,
    measured: Measured,
    requests: Sequence[Any],
    reference: Sequence[Image],
    case: Case,
    *,
    num_requests: int,
) -> dict[str, float]:
    """Return the picture error over the mask with INT2 on the top tenth of tokens, and on the rest.

    As in the paper's figure on importance: a share is error(top alone) / (error(top alone) + error(rest
    alone)), with errors as mean squared differences from uncompressed state.
    """
    coarse = uniform.integers(measured.states, bits=2).states
    received_N = measured.full_attention.rows_UBN[0].mean(axis=0)
    count = max(1, round(TOP_SHARE * len(received_N)))
    is_top = np.zeros(len(received_N), np.bool_)
    is_top[np.argsort(received_N)[-count:]] = True
    errors: dict[str, float] = {}
    for name, rows in (("top", is_top), ("rest", ~is_top)):
        states = np.where(rows[:, None], coarse, measured.states)
        reuse = with_source(state.reuse(), ArrayState(states=states))
        pictures = draw(
            family,
            requests[:num_requests],
            picture=case.picture,
            mask_HW=case.mask_HW,
            reuse=reuse,
        )
        found = compare(pictures, reference[:num_requests], case.mask_HW)
        errors[name] = float(np.mean([10 ** (-one.mask_psnr_db / 10) for one in found]))
    return {**errors, "top_share": errors["top"] / (errors["top"] + errors["rest"])}
