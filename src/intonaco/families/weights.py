"""Presharded weights of a checkpoint: found beside the programs, or written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from intonaco.backends.spec import Precision
from intonaco.families.checkpoint import Checkpoint, read_json, revision_digest
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.presharding import Header, map_tensors, read_header

NAME_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentWeights:
    """A component's configuration and presharded tensors."""

    config: Mapping[str, Any]
    header: Header
    tensors: Mapping[str, Tensor]
    precision: Precision


def open_weights(
    checkpoint: Checkpoint,
    library: ProgramLibrary,
    *,
    precision: Precision,
    config_folders: Mapping[str, str],
    preshard: Callable[[Path], None],
) -> dict[str, ComponentWeights]:
    """Map the presharded weights of every component; `preshard` writes those not there yet.

    Args:
        config_folders: the checkpoint's folder that holds each component's configuration.
        preshard: writes NAME.safetensors of every component to a folder; imports model classes.
    """
    name = f"{revision_digest(checkpoint)[:NAME_DIGITS]}-{precision}"
    folder = library.weights_folder / name
    paths = {component: folder / f"{component}.safetensors" for component in config_folders}
    if not _are_files(paths):
        with library.store.lock(f"weights-{name}") as lock:
            lock.acquire()
            # Another process may have written them while this one waited.
            if not _are_files(paths):
                preshard(folder)
    return {
        component: ComponentWeights(
            config=read_json(checkpoint.folder / config_folders[component] / "config.json"),
            header=read_header(path),
            tensors=map_tensors(path),
            precision=precision,
        )
        for component, path in paths.items()
    }


def _are_files(paths: Mapping[str, Path]) -> bool:
    return all(path.is_file() for path in paths.values())
