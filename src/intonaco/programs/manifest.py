"""The manifest of an artifact: its key, its files and their checksums, and how it was made."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from intonaco.errors import ArtifactDamagedError
from intonaco.programs.spec import ProgramKey, canonical_json

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 1
READ_BYTES = 1 << 20


class FileRecord(BaseModel):
    """One file of an artifact: its size and the SHA-256 of its bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_bytes: int
    sha256: str


class Manifest(BaseModel):
    """What stands in `manifest.json`. Written last, so a folder without one is not an artifact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    digest: str
    key: ProgramKey
    files: dict[str, FileRecord]
    compile_s: float
    created: str

    @property
    def num_bytes(self) -> int:
        """Size of all files but the manifest, in bytes."""
        return sum(record.num_bytes for record in self.files.values())


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in `folder`. Raises `ArtifactDamagedError`, also when the key was altered."""
    path = folder / MANIFEST_NAME
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise damaged(folder, f"{MANIFEST_NAME} cannot be read ({_first_line(error)})") from error
    if manifest.format_version != FORMAT_VERSION:
        raise damaged(
            folder, f"format_version must be {FORMAT_VERSION}, got {manifest.format_version}"
        )
    if manifest.digest != manifest.key.digest or manifest.digest != folder.name:
        raise damaged(folder, f"its key has the digest {manifest.key.digest}")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json` in its one canonical form."""
    text = canonical_json(manifest.model_dump(mode="json"))
    (folder / MANIFEST_NAME).write_text(text + "\n")


def record_files(folder: Path) -> dict[str, FileRecord]:
    """Return a record of every file in `folder`, by relative name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): record_file(path) for path in paths}


def record_file(path: Path) -> FileRecord:
    """Return size and SHA-256 of one file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return FileRecord(num_bytes=path.stat().st_size, sha256=digest.hexdigest())


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with its record. Raises `ArtifactDamagedError` naming the file."""
    for name, expected in manifest.files.items():
        # Not asked first whether it is there: another process may remove it between any two looks.
        try:
            num_bytes = (folder / name).stat().st_size
            if num_bytes != expected.num_bytes:
                raise damaged(
                    folder, f"file {name} has {num_bytes} bytes, not {expected.num_bytes}"
                )
            if record_file(folder / name).sha256 != expected.sha256:
                raise damaged(folder, f"file {name} was altered: its SHA-256 differs")
        except FileNotFoundError:
            raise damaged(folder, f"file {name} is missing") from None
        except OSError as error:
            raise damaged(folder, f"file {name} cannot be read ({error.strerror})") from error


def damaged(folder: Path, what: str) -> ArtifactDamagedError:
    """Return the error for a damaged artifact, with its remedy."""
    return ArtifactDamagedError(
        f"artifact {folder.name} is damaged: {what}; remove it with "
        "'intonaco programs prune --damaged', it is compiled again when needed"
    )


def _first_line(error: Exception) -> str:
    return f"{str(error).splitlines()[0]:.120}"
