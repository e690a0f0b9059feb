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
    transformer = _eager_transformer(denoiser)
    return None if transformer is None else EagerProbe(Flux2Features(transformer))


def _wan_probe(denoiser: Any) -> ChangeProbe | None:
    from intonaco.families.wan_programs import ProgramWanDenoiser
    from intonaco.stepcache.wan_probe import WanFeatures, probe_name, probe_spec

    if isinstance(denoiser, ProgramWanDenoiser):
        weights = denoiser.weights
        return ProgramProbe(
            library=denoiser.library,
            tensors={probe_name(name): tensor for name, tensor in weights.tensors.items()},
            spec_of=lambda shapes: probe_spec(
                weights.config, weights.header, latent_shape=shapes["hidden_states"]
            ),
        )
    transformer = _eager_transformer(denoiser)
    return None if transformer is None else EagerProbe(WanFeatures(transformer))


def _eager_transformer(denoiser: Any) -> Any:
    """Return diffusers' transformer inside an eager denoiser, or None where there is none."""
    return getattr(getattr(denoiser, "module", None), "transformer", None)


PROBES: dict[str, ProbeMaker] = {
    "flux2": _flux2_probe,
    "wan": _wan_probe,
}
