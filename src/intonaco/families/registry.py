"""Which adapter loads which pipeline class. A new family adds one function and one line."""

import torch

from intonaco.errors import UnsupportedError
from intonaco.families.base import Family
from intonaco.families.checkpoint import Checkpoint


def _load_flux2(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Family:
    # Model classes take seconds to import: only the family in use pays.
    from intonaco.families.flux2_modules import load_flux2

    return load_flux2(checkpoint, dtype=dtype, device=device)


LOADERS = {
    "Flux2KleinPipeline": _load_flux2,
}


def load_family(checkpoint: Checkpoint, *, dtype: torch.dtype, device: torch.device) -> Family:
    """Load `checkpoint` by the adapter of its pipeline class; UnsupportedError if there is none."""
    loader = LOADERS.get(checkpoint.class_name)
    if loader is None:
        raise UnsupportedError(
            f"{checkpoint.folder} is a {checkpoint.class_name}, which has no adapter here; use one "
            f"of {', '.join(sorted(LOADERS))}"
        )
    return loader(checkpoint, dtype, device)
