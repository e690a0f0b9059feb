"""A step whose template state is gone is computed densely, and can be cancelled either way."""

from dataclasses import dataclass, replace

import pytest
import torch

from intonaco.errors import GenerationCancelled, StateGoneError
from intonaco.families.state_fallback import FallbackDenoiser

SPARSE, DENSE = torch.tensor(1.0), torch.tensor(2.0)


@dataclass(frozen=True)
class Sparse:
    """Has state for the steps before `gone_from`, and a check before its only call."""

    gone_from: int
    check: object = None

    def __call__(self, inputs, step, /):
        if self.check is not None:
            self.check()
        if step >= self.gone_from:
            raise StateGoneError("the network is gone")
        return SPARSE

    def interruptible(self, check, /):
        return replace(self, check=check)


def dense(inputs, /):
    return DENSE


def test_steps_without_state_are_dense():
    denoiser = FallbackDenoiser(sparse=Sparse(gone_from=2), dense=dense)

    assert [float(denoiser({}, step)) for step in range(4)] == [1, 1, 2, 2]


def test_a_cancelled_step_is_not_begun_again():
    def cancel():
        raise GenerationCancelled("cancelled")

    denoiser = FallbackDenoiser(sparse=Sparse(gone_from=0), dense=dense).interruptible(cancel)
    with pytest.raises(GenerationCancelled):
        denoiser({}, 0)
