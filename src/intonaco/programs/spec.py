"""The key of a program: a digest over its spec, the backend's fingerprint and the builder's source.

Two keys differ exactly when the compiled code may differ. Imports no torch and no builder: sources
are found and hashed without being run, so a warm start pays for neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata, util
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from intonaco.backends.spec import DtypeName, Precision, ProgramSpec, TensorSpec
from intonaco.errors import ProgramKeyError

__all__ = [
    "DtypeName", "Precision", "ProgramKey", "ProgramSpec", "TensorSpec", "canonical_json",
    "key_differences", "make_key",
]  # fmt: skip


class ProgramKey(BaseModel):
    """What an artifact is stored under. `digest` names its folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: ProgramSpec
    fingerprint: dict[str, str]
    sources: dict[str, str]

    @cached_property
    def digest(self) -> str:
        """The first 32 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json")).encode()).hexdigest()[
            :32
        ]


def make_key(spec: ProgramSpec, fingerprint: Mapping[str, str]) -> ProgramKey:
    """Return the key of `spec` for one backend. Raises `ProgramKeyError` when a source is missing."""
    modules = (spec.builder.partition(":")[0], *spec.sources)
    sources = {name: _source_digest(name) for name in sorted(set(modules))}
    sources |= {name: _library_version(name) for name in sorted(spec.libraries)}
    return ProgramKey(spec=spec, fingerprint=dict(fingerprint), sources=sources)


def canonical_json(value: JsonValue) -> str:
    """Return the one JSON text of `value`: keys sorted, no blanks, ASCII only, NaN refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_differences(wanted: ProgramKey, stored: ProgramKey) -> dict[str, tuple[str, str]]:
    """Return the fields that differ, as dotted name -> (wanted, stored), in the order of their names."""
    wanted_fields = _flatten(wanted.model_dump(mode="json"))
    stored_fields = _flatten(stored.model_dump(mode="json"))
    names = sorted(wanted_fields.keys() | stored_fields.keys())
    pairs = {name: (wanted_fields.get(name, "-"), stored_fields.get(name, "-")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _flatten(value: JsonValue, prefix: str = "") -> dict[str, str]:
    """Return leaves by dotted name; a list of named tensors is addressed by name, not by position."""
    items = _items(value)
    if items is None:
        return {prefix: canonical_json(value)}
    leaves: dict[str, str] = {}
    for name, item in items.items():
        leaves |= _flatten(item, f"{prefix}.{name}" if prefix else name)
    return leaves


def _items(value: JsonValue) -> dict[str, JsonValue] | None:
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and value:
        named = [item for item in value if isinstance(item, dict) and "name" in item]
        if len(named) == len(value):
            return {str(item["name"]): item for item in named}
    return None


def _source_digest(module_name: str) -> str:
    try:
        found = util.find_spec(module_name)
    except ImportError:
        found = None
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise ProgramKeyError(
            f"a program's sources must be importable Python files, got module {module_name!r}; "
            "give the builder as 'package.module:function'"
        )
    return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()[:16]


def _library_version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise ProgramKeyError(
            f"a program's libraries must be installed, got {distribution!r}; "
            f"install it with: pip install {distribution}"
        ) from None
