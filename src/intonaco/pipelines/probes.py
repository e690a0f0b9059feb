"""Which probe serves which family, on eager modules and on programs.

A new family adds one function and one line.
"""

from collections.abc import Callable
from typing import Any

from intonaco.families.base import Family
from intonaco.stepcache.probe import ChangeProbe, EagerProbe, ProgramProbe

ProbeMaker = Callable[[Any], ChangeProbe | None]


def make_change_probe(family: Family) -> ChangeProbe | None:
    """Return a probe over the family's own denoiser weights, or None where there is none."""
    maker = PROBES.get(family.name)
    parts: Any = family
    return None if maker is None else maker(parts.denoiser)


def _flux2_probe(denoiser: Any) -> ChangeProbe | None:
    from intonaco.families.flux2_programs import ProgramDenoiser
    from intonaco.stepcache.flux2_probe import Flux2Features, probe_spec

    if isinstance(denoiser, ProgramDenoiser):
        weights = denoiser.weights
        return ProgramProbe(
            library=denoiser.library,
            tensors={f"features.{name}": tensor for name, tensor in weights.tensors.items()},
            spec_of=lambda shapes: probe_spec(
                weights.config,
                weights.header,
                num_image_tokens=shapes["hidden_states"][1],
                precision=weights.precision,
            ),
        )
    module = getattr(denoiser, "module", None)
    transformer = getattr(module, "transformer", None)
    return None if transformer is None else EagerProbe(Flux2Features(transformer))


PROBES: dict[str, ProbeMaker] = {
    "flux2": _flux2_probe,
}
