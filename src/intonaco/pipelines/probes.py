"""Which probe serves which family, on eager modules and on programs.

A new family adds one function and one line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from intonaco.backends.spec import ProgramSpec
from intonaco.families.base import Family
from intonaco.families.picture_shape import PictureShape
from intonaco.families.registry import needed_specs
from intonaco.programs.library import ProgramLibrary
from intonaco.stepcache.probe import ChangeProbe, EagerProbe, ProgramProbe

PROLOGUE = "denoiser/prologue"
ProbeMaker = Callable[[Any], ChangeProbe | None]


def make_change_probe(family: Family) -> ChangeProbe | None:
    """Return a probe over the family's own denoiser weights, or None where there is none."""
    maker = PROBES.get(family.name)
    parts: Any = family
    return None if maker is None else maker(parts.denoiser)


def probe_specs(family: Family, library: ProgramLibrary, shape: PictureShape) -> list[ProgramSpec]:
    """Return the probe's program for what is drawn in `shape`; none where the probe stays eager."""
    probe: Any = make_change_probe(family)
    if probe is None:
        return []
    specs = needed_specs(family, replace(shape, reference_sizes=()))
    (prologue,) = (spec for spec in specs if spec.component == PROLOGUE)
    spec = probe.spec_of({item.name: item.shape for item in prologue.inputs})
    return [] if library.backend.supports(spec) else [spec]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTokensProbe:
    """A probe of FLUX.2 that looks at the picture's own tokens: references stay as they are.

    So the score means the same with references as without, and one program serves both.
    """

    probe: ChangeProbe
    spec_of: Callable[[Mapping[str, tuple[int, ...]]], ProgramSpec] | None = None

    def __call__(self, inputs: Mapping[str, Tensor], /) -> Tensor:
        """Return the score (1, 1) of the picture's tokens alone."""
        from intonaco.families.flux2 import count_drawn_tokens

        drawn = inputs["hidden_states"][:, : count_drawn_tokens(inputs)]
        return self.probe({**inputs, "hidden_states": drawn})

    def reset(self) -> None:
        self.probe.reset()


def _flux2_probe(denoiser: Any) -> ChangeProbe | None:
    from intonaco.families.flux2_programs import ProgramDenoiser
    from intonaco.stepcache.flux2_probe import Flux2Features, probe_spec

    if isinstance(denoiser, ProgramDenoiser):
        weights = denoiser.weights
        probe = ProgramProbe(
            library=denoiser.library,
            tensors={f"features.{name}": tensor for name, tensor in weights.tensors.items()},
            spec_of=lambda shapes: probe_spec(
                weights.config,
                weights.header,
                num_image_tokens=shapes["hidden_states"][1],
                precision=weights.precision,
            ),
        )
        return DrawnTokensProbe(probe=probe, spec_of=probe.spec_of)
    transformer = _eager_transformer(denoiser)
    if transformer is None:
        return None
    return DrawnTokensProbe(probe=EagerProbe(Flux2Features(transformer)))


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
