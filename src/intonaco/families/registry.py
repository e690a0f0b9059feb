"""Which adapter loads which pipeline class. A new family adds one function and one line."""

from collections.abc import Callable
from typing import Any

import torch

from intonaco.backends.spec import Precision, ProgramSpec
from intonaco.errors import UnsupportedError
from intonaco.families.base import Family
from intonaco.families.checkpoint import Checkpoint
from intonaco.families.picture_shape import PictureShape
from intonaco.programs.compiler import check_precision
from intonaco.programs.library import ProgramLibrary


def _load_flux2(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Family:
    # Model classes take seconds to import: only the family in use pays.
    from intonaco.families.flux2_modules import load_flux2

    return load_flux2(checkpoint, dtype=dtype, device=device)


def _load_wan(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Family:
    from intonaco.families.wan_modules import load_wan

    return load_wan(checkpoint, dtype=dtype, device=device)


def _load_flux2_programs(
    checkpoint: Checkpoint, library: ProgramLibrary, precision: Precision, device: torch.device
) -> Family:
    from intonaco.families.flux2_programs import load_flux2_programs

    return load_flux2_programs(checkpoint, library, precision=precision, device=device)


def _load_wan_programs(
    checkpoint: Checkpoint, library: ProgramLibrary, precision: Precision, device: torch.device
) -> Family:
    from intonaco.families.wan_programs import load_wan_programs

    return load_wan_programs(checkpoint, library, precision=precision, device=device)


def _flux2_specs(family: Any, shape: PictureShape) -> list[ProgramSpec]:
    from intonaco.families.flux2_needs import picture_specs

    return picture_specs(family, shape)


def _wan_specs(family: Any, shape: PictureShape) -> list[ProgramSpec]:
    from intonaco.families.wan_needs import film_specs

    return film_specs(family, shape)


LOADERS = {
    "Flux2KleinPipeline": _load_flux2,
    "WanPipeline": _load_wan,
}
PROGRAM_LOADERS = {
    "Flux2KleinPipeline": _load_flux2_programs,
    "WanPipeline": _load_wan_programs,
}

SPECS: dict[str, Callable[[Any, PictureShape], list[ProgramSpec]]] = {
    "flux2": _flux2_specs,
    "wan": _wan_specs,
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


def load_family_on_programs(
    checkpoint: Checkpoint,
    library: ProgramLibrary,
    *,
    precision: Precision,
    device: torch.device,
) -> Family:
    """Load `checkpoint` on compiled programs.

    Raises UnsupportedError if its family has none yet or `device` is not the host, and
    UnsupportedProgramError if the backend has none of that precision here; nothing was written.
    """
    loader = PROGRAM_LOADERS.get(checkpoint.class_name)
    if loader is None:
        raise UnsupportedError(
            f"{checkpoint.folder} is a {checkpoint.class_name}, which has no programs here; use "
            f"backend='eager', or one of {', '.join(sorted(PROGRAM_LOADERS))}"
        )
    if device.type != "cpu":
        raise UnsupportedError(
            f"device must be 'cpu' on programs, which are compiled for the host only, got {str(device)!r}; "
            "use it, or backend='eager'"
        )
    check_precision(library.backend, precision)
    return loader(checkpoint, library, precision, device)


def needed_specs(family: Family, shape: PictureShape) -> list[ProgramSpec]:
    """Return the programs that a family on programs needs for what is drawn in `shape`, in order.

    Raises RequestError where the model cannot draw that shape.
    """
    return SPECS[family.name](family, shape)
