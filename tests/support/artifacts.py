"""Puts artifacts into a store as the compiler does, without compiling."""

from intonaco.programs.manifest import Manifest, record_files, write_manifest
from intonaco.programs.spec import ProgramKey, ProgramSpec, make_key
from intonaco.programs.store import ArtifactStore
from tests.support.fake_backend import FakeBackend


def publish(
    store: ArtifactStore,
    spec: ProgramSpec,
    backend: FakeBackend | None = None,
    content: bytes = b"binary",
) -> ProgramKey:
    """Write an artifact for `spec` and return its key."""
    key = make_key(spec, (backend or FakeBackend()).fingerprint())
    with store.scratch() as scratch:
        folder = scratch / key.digest
        folder.mkdir()
        (folder / "program.bin").write_bytes(content)
        manifest = Manifest(
            digest=key.digest,
            key=key,
            files=record_files(folder),
            compile_s=1.0,
            created="2026-01-01T00:00:00+00:00",
        )
        write_manifest(folder, manifest)
        folder.rename(store.root / key.digest)
    return key
