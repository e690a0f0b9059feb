"""Artifacts are complete or absent; what is damaged or foreign is found before it is loaded."""

import json
import shutil
import threading

import pytest

from intonaco.errors import (
    ArtifactDamagedError,
    ArtifactMissingError,
    BackendUnavailableError,
    FingerprintError,
    SaveError,
)
from intonaco.programs import manifest
from intonaco.programs.compiler import ensure_programs
from intonaco.programs.manifest import MANIFEST_NAME, read_manifest, record_file
from intonaco.programs.spec import make_key
from intonaco.programs.store import ArtifactStore
from tests.support.artifacts import publish
from tests.support.fake_backend import FakeBackend
from tests.support.program_builders import affine_spec, probe_spec


@pytest.fixture
def store(tmp_path):
    return ArtifactStore(tmp_path / "store")


def test_a_published_program_is_found(store):
    key = publish(store, affine_spec())
    assert store.find(key) == store.root / key.digest


def test_an_unknown_program_is_not_found(store):
    assert store.find(make_key(affine_spec(), FakeBackend().fingerprint())) is None


def test_an_empty_store_says_how_to_fill_it(store):
    key = make_key(affine_spec(), FakeBackend().fingerprint())
    with pytest.raises(ArtifactMissingError, match=r"holds no program 'test/affine'.*compile"):
        store.require(key)


def test_a_truncated_file_is_found(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"bin")
    with pytest.raises(ArtifactDamagedError, match=r"program.bin has 3 bytes, not 6"):
        store.find(key)


def test_an_altered_file_is_found(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"bimary")
    with pytest.raises(ArtifactDamagedError, match=r"program.bin was altered"):
        store.find(key)


def test_a_missing_file_is_found(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / "program.bin").unlink()
    with pytest.raises(ArtifactDamagedError, match=r"program.bin is missing"):
        store.find(key)


def test_a_file_that_goes_while_it_is_read_is_found(store, monkeypatch):
    key = publish(store, affine_spec())

    def remove_first(path):
        path.unlink()
        return record_file(path)

    monkeypatch.setattr(manifest, "record_file", remove_first)
    with pytest.raises(ArtifactDamagedError, match=r"program.bin is missing"):
        store.find(key)


def test_a_file_that_cannot_be_read_is_found(store):
    key = publish(store, affine_spec())
    path = store.root / key.digest / "program.bin"
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(ArtifactDamagedError, match=r"program.bin cannot be read"):
        store.find(key)


def test_a_truncated_manifest_is_found(store):
    key = publish(store, affine_spec())
    path = store.root / key.digest / MANIFEST_NAME
    path.write_text(path.read_text()[:100])
    with pytest.raises(ArtifactDamagedError, match=r"manifest.json cannot be read"):
        store.find(key)


def test_a_program_without_a_manifest_goes_as_its_error_says(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / MANIFEST_NAME).unlink()
    with pytest.raises(ArtifactDamagedError, match=r"manifest.json cannot be read.*--damaged"):
        store.find(key)
    assert [verdict.digest for verdict in store.verify() if verdict.problem] == [key.digest]
    assert store.remove_damaged(key.digest) is not None
    assert store.find(key) is None


def test_an_altered_key_is_found(store):
    key = publish(store, affine_spec())
    path = store.root / key.digest / MANIFEST_NAME
    content = json.loads(path.read_text())
    content["key"]["spec"]["component"] = "test/other"
    path.write_text(json.dumps(content))
    with pytest.raises(ArtifactDamagedError, match=r"its key has the digest"):
        read_manifest(path.parent)


def test_another_format_version_is_refused(store):
    key = publish(store, affine_spec())
    path = store.root / key.digest / MANIFEST_NAME
    path.write_text(path.read_text().replace('"format_version":1', '"format_version":2'))
    with pytest.raises(ArtifactDamagedError, match=r"format_version must be 1, got 2"):
        read_manifest(path.parent)


def test_a_copied_store_serves_without_a_compiler(store, tmp_path):
    publish(store, affine_spec())
    copy = ArtifactStore(shutil.copytree(store.root, tmp_path / "copy"))
    backend = FakeBackend(has_compiler=False)
    folders = ensure_programs(copy, backend, [affine_spec()], may_compile=False)
    assert (folders[0] / "program.bin").read_bytes() == b"binary"


def test_what_is_found_is_reported_also_where_nothing_may_compile(store):
    keys = [publish(store, spec) for spec in (affine_spec(), probe_spec())]
    found = []
    ensure_programs(
        store,
        FakeBackend(),
        [affine_spec(), probe_spec(), affine_spec()],
        may_compile=False,
        progress=lambda event: found.append((event.phase, event.digest)),
    )
    assert found == [("found", key.digest) for key in keys]


def test_a_copied_store_is_refused_where_the_fingerprint_differs(store):
    publish(store, affine_spec())
    key = make_key(affine_spec(), FakeBackend(torch="2", instruction_set="avx2").fingerprint())
    with pytest.raises(FingerprintError) as caught:
        store.require(key)
    assert 'fingerprint.torch: wanted "2", stored "1"' in str(caught.value)
    assert "fingerprint.instruction_set" in str(caught.value)


def test_without_a_compiler_nothing_is_compiled(store):
    with pytest.raises(BackendUnavailableError, match=r"cannot compile here: no compiler; install"):
        ensure_programs(store, FakeBackend(has_compiler=False), [affine_spec()])


def test_the_nearest_program_is_named_with_the_fields_that_differ(store):
    publish(store, probe_spec())
    publish(store, affine_spec())
    wanted = make_key(affine_spec(precision="bfloat16"), FakeBackend().fingerprint())
    nearest = store.nearest(wanted)
    assert nearest.manifest.key.spec.component == "test/affine"
    assert nearest.differences["spec.precision"] == ('"bfloat16"', '"float32"')


def test_verify_reports_each_artifact_once(store):
    publish(store, affine_spec())
    key = publish(store, probe_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"x")
    problems = {verdict.component: bool(verdict.problem) for verdict in store.verify()}
    assert problems == {"test/affine": False, "test/probe": True}


def test_a_removed_program_is_gone_and_its_bytes_are_counted(store):
    key = publish(store, affine_spec())
    num_bytes = store.remove(key.digest)
    assert (store.find(key), num_bytes > 6) == (None, True)


def test_a_program_that_another_process_removed_is_no_error(store):
    key = publish(store, affine_spec())
    store.remove(key.digest)
    assert store.remove(key.digest) is None


def test_a_damaged_program_is_removed(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"x")
    assert store.remove_damaged(key.digest) > 0
    assert store.find(key) is None


def test_a_program_that_was_compiled_anew_since_it_was_found_damaged_stays(store):
    key = publish(store, affine_spec())
    assert store.remove_damaged(key.digest) is None
    assert store.find(key) is not None


def test_a_damaged_program_that_is_being_compiled_is_left_alone(store):
    key = publish(store, affine_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"x")
    with store.lock(key.digest) as lock:
        lock.acquire()
        thread = threading.Thread(target=lambda: removed.append(store.remove_damaged(key.digest)))
        removed = []
        thread.start()
        thread.join()
    assert removed == [None]
    assert (store.root / key.digest).is_dir()


@pytest.mark.parametrize("write", [lambda store: store.lock("any"), lambda store: store.scratch()])
def test_a_store_that_cannot_be_written_says_what_would_work(tmp_path, write):
    (tmp_path / "file").write_text("in its place")
    with (
        pytest.raises(SaveError, match=r"must be a folder that can be written, .*file is not: "),
        write(ArtifactStore(tmp_path / "file")),
    ):
        pass


def test_scratch_of_a_process_that_is_gone_is_swept(store):
    abandoned = store.root / ".scratch" / "abandoned"
    abandoned.mkdir(parents=True)
    abandoned.with_suffix(".lock").touch()
    with store.scratch():
        assert not abandoned.exists()


def test_scratch_that_is_in_use_is_not_swept(store):
    swept = []
    with store.scratch() as scratch:
        thread = threading.Thread(target=lambda: swept.append(store.sweep()))
        thread.start()
        thread.join()
        assert (scratch.is_dir(), swept) == (True, [0])


def test_scratch_is_empty_after_use(store):
    with store.scratch():
        pass
    assert list((store.root / ".scratch").iterdir()) == []
