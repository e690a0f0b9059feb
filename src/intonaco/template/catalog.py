"""A catalog: a folder of templates, each a folder of its own, listed in one small file.

    <catalog>/catalog.json            ids, titles, sizes, models; small enough to show a list from
    <catalog>/<id, 16 digits>/        manifest.json and the files that it names
    <catalog>/.catalog.lock           held while the list changes

A template's folder is written beside and renamed, then listed; any HTTP server can serve a catalog.
Opens files by what the manifest says of them, never by what they say of themselves.
"""

import hashlib
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from filelock import FileLock
from pydantic import Field, model_validator

from intonaco.errors import (
    ManifestError,
    PackDamagedError,
    SaveError,
    TemplateError,
    TemplateMissingError,
)
from intonaco.template.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    ByteCount,
    Digest,
    FileRecord,
    Strict,
    TemplateManifest,
    canonical_json,
    parse_strict,
    read_manifest,
)

CATALOG_NAME = "catalog.json"
LOCK_NAME = ".catalog.lock"
MAX_CATALOG_BYTES = 16 << 20
ID_DIGITS_IN_FOLDER = 16
LOCK_TIMEOUT_S = 60


class CatalogEntry(Strict):
    """One template of a catalog.

    Attributes:
        manifest_sha256: of its manifest; a reader that has another one must fetch it again.
        state_bytes: the coded state at full quality.
        picture: the template's picture, a file in its folder.
    """

    template_id: Digest
    title: Annotated[str, Field(max_length=200)]
    manifest_sha256: Digest
    state_bytes: ByteCount
    picture: FileRecord

    @property
    def folder_name(self) -> str:
        return self.template_id[:ID_DIGITS_IN_FOLDER]


class CatalogList(Strict):
    """What stands in `catalog.json`."""

    schema_version: Literal[1] = 1
    templates: Annotated[tuple[CatalogEntry, ...], Field(max_length=100_000)] = ()

    @model_validator(mode="after")
    def _folders_differ(self) -> Self:
        names = [entry.folder_name for entry in self.templates]
        if len(set(names)) != len(names):
            raise ValueError(f"the first {ID_DIGITS_IN_FOLDER} digits of template_id must differ")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One template on disk, its manifest read and checked, its files not yet."""

    folder: Path
    manifest: TemplateManifest
    manifest_sha256: str

    @classmethod
    def open(cls, folder: Path) -> "Template":
        """Read the manifest in `folder`. Raises TemplateMissingError or ManifestError."""
        if not (folder / MANIFEST_NAME).is_file():
            raise TemplateMissingError(
                f"template {folder} does not exist or has no {MANIFEST_NAME}; pass a folder of a "
                "catalog, or build one with 'intonaco template build'"
            )
        content = _read_bounded(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = read_manifest(content, name=str(folder / MANIFEST_NAME))
        return cls(
            folder=folder,
            manifest=manifest,
            manifest_sha256=hashlib.sha256(content).hexdigest(),
        )

    def read(self, record: FileRecord) -> bytes:
        """Return a whole file, compared with its SHA-256. Raises TemplateError."""
        content = self.read_prefix(record, record.num_bytes)
        if hashlib.sha256(content).hexdigest() != record.sha256:
            raise PackDamagedError(
                f"{self.folder / record.name} was altered: its SHA-256 differs from the manifest's; "
                "copy it again"
            )
        return content

    def read_prefix(self, record: FileRecord, num_bytes: int) -> bytes:
        """Return the first `num_bytes` of a file; its chunks carry their own checksums."""
        path = self.folder / record.name
        try:
            on_disk = path.stat().st_size
            if on_disk != record.num_bytes:
                raise PackDamagedError(
                    f"{path} must have {record.num_bytes} bytes, as the manifest says, got "
                    f"{on_disk}; copy it again"
                )
            with path.open("rb") as file:
                return file.read(min(num_bytes, record.num_bytes))
        except FileNotFoundError:
            raise TemplateMissingError(
                f"{path} is missing, the manifest lists it; copy it again"
            ) from None


class Catalog:
    """The templates in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entries(self) -> tuple[CatalogEntry, ...]:
        """Return what the catalog lists, by title. Raises TemplateMissingError or ManifestError."""
        path = self.root / CATALOG_NAME
        if not path.is_file():
            raise TemplateMissingError(
                f"catalog {self.root} does not exist or has no {CATALOG_NAME}; build a template "
                f"into it with 'intonaco template build ... -o {self.root}'"
            )
        content = _read_bounded(path, MAX_CATALOG_BYTES)
        listed = parse_strict(CatalogList, content, name=str(path), max_bytes=MAX_CATALOG_BYTES)
        return tuple(sorted(listed.templates, key=lambda entry: (entry.title, entry.template_id)))

    def open(self, template_id: str) -> Template:
        """Return the template whose id starts with `template_id`, as the catalog lists it."""
        entries = self.entries()
        found = [entry for entry in entries if entry.template_id.startswith(template_id)]
        if len(found) != 1 or not template_id:
            known = ", ".join(entry.folder_name for entry in entries[:8]) or "none"
            raise TemplateMissingError(
                f"template id {template_id!r:.70} must start the id of one template of {self.root}, "
                f"got {len(found)}; there are {known}"
            )
        return self._open_listed(found[0])

    def open_all(self) -> list[Template]:
        """Return every template that the catalog lists, by title."""
        return [self._open_listed(entry) for entry in self.entries()]

    def add(self, manifest: TemplateManifest, contents: Mapping[str, bytes]) -> Template:
        """Write a template's folder and list it; one of the same id is replaced.

        `contents` holds every file that the manifest names. Raises SaveError; a catalog is never
        left half-written.
        """
        named = {record.name for record in manifest.files()}
        if named != set(contents):
            raise ManifestError(
                f"contents must hold the files of the manifest, these differ: "
                f"{sorted(named ^ set(contents))[:4]}"
            )
        content = manifest.to_json()
        entry = CatalogEntry(
            template_id=manifest.template_id,
            title=manifest.title,
            manifest_sha256=hashlib.sha256(content).hexdigest(),
            state_bytes=manifest.state_bytes,
            picture=manifest.picture,
        )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / LOCK_NAME, timeout=LOCK_TIMEOUT_S):
                self._replace_folder(entry.folder_name, {**contents, MANIFEST_NAME: content})
                self._list(entry)
        except OSError as error:
            raise SaveError(
                f"cannot write to catalog {self.root} ({error.strerror or error}); choose a "
                "writable folder with free space"
            ) from None
        return Template(
            folder=self.root / entry.folder_name,
            manifest=manifest,
            manifest_sha256=entry.manifest_sha256,
        )

    def _open_listed(self, entry: CatalogEntry) -> Template:
        template = Template.open(self.root / entry.folder_name)
        _check_listed(entry, template)
        return template

    def _replace_folder(self, name: str, contents: Mapping[str, bytes]) -> None:
        target, unique = self.root / name, uuid.uuid4().hex
        scratch = self.root / f".{name}.{unique}.partial"
        retired = self.root / f".{name}.{unique}.retired"
        try:
            scratch.mkdir()
            for file_name, content in contents.items():
                (scratch / file_name).write_bytes(content)
            # A folder cannot be renamed over one that holds files.
            if target.exists():
                target.rename(retired)
            scratch.rename(target)
        finally:
            if retired.exists() and not target.exists():
                retired.rename(target)
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.rmtree(retired, ignore_errors=True)

    def _list(self, entry: CatalogEntry) -> None:
        known = self.entries() if (self.root / CATALOG_NAME).is_file() else ()
        others = [one for one in known if one.template_id != entry.template_id]
        content = canonical_json(CatalogList(templates=(*others, entry)))
        scratch = self.root / f".{CATALOG_NAME}.{uuid.uuid4().hex}.partial"
        try:
            scratch.write_bytes(content)
            scratch.replace(self.root / CATALOG_NAME)
        finally:
            scratch.unlink(missing_ok=True)


def open_template(path: Path) -> Template:
    """Return the template at `path`: CATALOG/ID, its id perhaps shortened, or a lone folder.

    Raises TemplateMissingError or ManifestError.
    """
    if (path / MANIFEST_NAME).is_file() or not (path.parent / CATALOG_NAME).is_file():
        return Template.open(path)
    return Catalog(path.parent).open(path.name)


def open_templates(path: Path) -> list[Template]:
    """Return all templates of the catalog at `path`, by title, or the one that is there.

    Raises TemplateMissingError or ManifestError.
    """
    if not (path / CATALOG_NAME).is_file():
        return [open_template(path)]
    return Catalog(path).open_all()


def check_template(template: Template) -> list[str]:
    """Return what is wrong with the files of a template, one line each; empty if it is whole."""
    problems: list[str] = []
    for record in template.manifest.files():
        try:
            template.read(record)
        except TemplateError as error:
            problems.append(str(error))
    return problems


def _check_listed(entry: CatalogEntry, template: Template) -> None:
    if template.manifest_sha256 != entry.manifest_sha256:
        raise ManifestError(
            f"{template.folder / MANIFEST_NAME} has SHA-256 {template.manifest_sha256[:12]}, the "
            f"catalog lists "
            f"{entry.manifest_sha256[:12]}; copy the whole catalog again"
        )


def _read_bounded(path: Path, max_bytes: int) -> bytes:
    # One byte more than the bound, so that the parser can tell and refuse.
    with path.open("rb") as file:
        return file.read(max_bytes + 1)
