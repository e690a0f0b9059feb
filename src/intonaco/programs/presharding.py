"""Weights as programs bind them: one safetensors file per component, mapped into memory.

The file holds every constant of the component by name, in the dtype of the program: checkpoint
weights, and the derived tensors that a module would compute when it is built. Pages come from the
file and are shared between processes; nothing is copied. Knows no model.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from intonaco.backends.spec import DtypeName, TensorSpec
from intonaco.errors import ArtifactDamagedError

if TYPE_CHECKING:
    from torch import Tensor, nn

DERIVED_KEY = "derived"
ALIGNMENT_BYTES = 64
MAX_HEADER_BYTES = 100_000_000
DTYPE_NAMES: dict[str, DtypeName] = {
    "F32": "float32", "BF16": "bfloat16", "F16": "float16", "I64": "int64", "I8": "int8",
    "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Header:
    """The tensors of a presharded file, by name, as specs of role `weight` or `derived`."""

    tensors: Mapping[str, TensorSpec]

    def under(self, *prefixes: str) -> tuple[TensorSpec, ...]:
        """Return the tensors whose name starts with one of `prefixes`, in the order of names."""
        names = sorted(name for name in self.tensors if name.startswith(prefixes))
        return tuple(self.tensors[name] for name in names)


def read_header(path: Path) -> Header:
    """Read names, shapes and dtypes, without torch. Raises `ArtifactDamagedError`."""
    try:
        with path.open("rb") as file:
            (num_bytes,) = struct.unpack("<Q", file.read(8))
            if num_bytes > MAX_HEADER_BYTES:
                raise _damaged(path, f"its header claims {num_bytes} bytes")
            entries = cast("dict[str, Any]", json.loads(file.read(num_bytes)))
        metadata = cast("dict[str, str]", entries.pop("__metadata__", {}))
        derived = frozenset(json.loads(metadata.get(DERIVED_KEY, "[]")))
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        tensors = {
            name: TensorSpec(
                name=name,
                shape=tuple(entry["shape"]),
                dtype=DTYPE_NAMES[entry["dtype"]],
                role="derived" if name in derived else "weight",
            )
            for name, entry in entries.items()
        }
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise _damaged(path, f"its header cannot be read ({type(error).__name__})") from error
    expected = 8 + num_bytes + end
    if path.stat().st_size != expected:
        raise _damaged(path, f"it has {path.stat().st_size} bytes, its header says {expected}")
    return Header(tensors)


def map_tensors(path: Path) -> dict[str, Tensor]:
    """Return every tensor of the file, backed by its pages. Raises `ArtifactDamagedError`."""
    # Imported here: the header is also read where torch is not.
    from safetensors import SafetensorError
    from safetensors import torch as safetensors_torch

    read_header(path)
    mapper: Any = safetensors_torch
    try:
        return mapper.load_file(path)
    except (SafetensorError, OSError) as error:
        raise _damaged(path, f"it cannot be mapped ({str(error)[:120]})") from error


def write_presharded(path: Path, tensors: Mapping[str, Tensor], derived: Iterable[str]) -> None:
    """Write the file beside and rename it; equal tensors give equal bytes."""
    from safetensors import torch as safetensors_torch

    writer: Any = safetensors_torch
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        # Cloned where two names share memory (tied weights): the format refuses shared memory.
        own = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
        # One entry only: the format keeps several in no order.
        derived_json = json.dumps(sorted(derived))
        writer.save_file(own, temporary, metadata={DERIVED_KEY: derived_json})
        # Kernels with aligned loads fault on a mapping whose data start anywhere.
        missing = -_data_start(temporary) % ALIGNMENT_BYTES
        if missing:
            padded_json = derived_json + " " * missing
            writer.save_file(own, temporary, metadata={DERIVED_KEY: padded_json})
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _data_start(path: Path) -> int:
    """Return where the bytes of the first tensor begin."""
    with path.open("rb") as file:
        return 8 + struct.unpack("<Q", file.read(8))[0]


def module_tensors(module: nn.Module) -> tuple[dict[str, Tensor], frozenset[str]]:
    """Return all parameters and buffers of `module` by name, and the names that it does not save."""
    tensors: dict[str, Tensor] = dict(module.named_parameters())
    tensors.update(module.named_buffers())
    return tensors, frozenset(tensors.keys() - module.state_dict().keys())


def _damaged(path: Path, what: str) -> ArtifactDamagedError:
    return ArtifactDamagedError(
        f"presharded weights {path} are damaged: {what}; remove the file, it is written again"
    )
