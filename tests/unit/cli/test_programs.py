"""`intonaco programs` says what is stored, why a program would be compiled, and what is damaged."""

import json

import pytest

from intonaco.programs.store import ArtifactStore
from tests.support.artifacts import publish
from tests.support.fake_backend import FakeBackend
from tests.support.program_builders import affine_spec, probe_spec
from tests.support.tiny_wan import build_tiny_wan


@pytest.fixture
def store(tmp_path):
    return ArtifactStore(tmp_path / "store")


def test_ls_names_each_program_with_its_precision_and_size(run, store):
    key = publish(store, affine_spec(precision="bfloat16"))
    result = run("programs", "ls", "--store", store.root)
    assert result.code == 0
    line = result.out.splitlines()[0].split()
    assert line[:4] == [key.digest[:12], "test/affine", "fake", "bfloat16"]


def test_ls_of_an_empty_store_is_no_error(run, store):
    result = run("programs", "ls", "--store", store.root, "--json")
    assert json.loads(result.out)["programs"] == []


def test_the_store_is_chosen_by_the_environment(run, store, monkeypatch):
    publish(store, affine_spec())
    monkeypatch.setenv("INTONACO_STORE", str(store.root))
    assert "1 programs" in run("programs", "ls").out


def test_verify_exits_with_3_and_names_the_damaged_file(run, store):
    publish(store, affine_spec())
    key = publish(store, probe_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"x")
    result = run("programs", "verify", "--store", store.root)
    assert result.code == 3
    assert "file program.bin has 1 bytes, not 6" in result.out
    assert "1 of 2 programs are whole" in result.out


def test_prune_removes_the_damaged_and_keeps_the_rest(run, store):
    kept = publish(store, affine_spec())
    key = publish(store, probe_spec())
    (store.root / key.digest / "program.bin").write_bytes(b"x")
    result = run("programs", "prune", "--damaged", "--store", store.root, "--json")
    assert json.loads(result.out)["removed"] == [key.digest]
    assert [manifest.digest for manifest in store.manifests()] == [kept.digest]


def test_prune_without_an_option_keeps_every_program(run, store):
    publish(store, affine_spec())
    assert run("programs", "prune", "--store", store.root).code == 0
    assert len(store.manifests()) == 1


def test_prune_foreign_removes_programs_of_other_machines(run, store):
    publish(store, affine_spec(), FakeBackend(backend="inductor", torch="0"))
    publish(store, probe_spec())
    result = run("programs", "prune", "--foreign", "--store", store.root, "--json")
    assert len(json.loads(result.out)["removed"]) == 1
    assert [manifest.key.spec.component for manifest in store.manifests()] == ["test/probe"]


def test_why_names_the_nearest_program_and_the_fields_that_differ(run, store, tiny_flux2_folder):
    publish(store, affine_spec())
    words = ("programs", "why", "-m", tiny_flux2_folder, "--size", "64x64", "--json")
    result = run(*words, "--backend", "inductor", "--store", store.root)
    answers = {answer["component"]: answer for answer in json.loads(result.out)["programs"]}
    assert "denoiser/single[2]" in answers
    assert answers["decoder"]["is_stored"] is False
    assert "spec.component" in answers["decoder"]["differences"]


def test_an_unknown_backend_is_refused_in_one_line(run, tiny_flux2_folder):
    result = run("compile", "-m", tiny_flux2_folder, "--backend", "fast")
    assert result.code == 3
    assert "backend must be one of eager, inductor, openvino, got 'fast'" in result.err


@pytest.fixture(scope="module")
def tiny_wan_folder(tmp_path_factory):
    return build_tiny_wan(tmp_path_factory.mktemp("wan"))


def components(result) -> list[str]:
    assert result.code == 0, result.err
    return [answer["component"] for answer in json.loads(result.out)["programs"]]


def test_why_knows_films(run, store, tiny_wan_folder):
    words = ("programs", "why", "-m", tiny_wan_folder, "--size", "32x32", "--frames", "9")
    assert components(run(*words, "--json", "--store", store.root)) == [
        "text_encoder",
        "denoiser/prologue",
        "denoiser/blocks[2]",
        "denoiser/epilogue",
        "decoder/first",
        "decoder/next",
    ]


def test_a_film_that_cannot_be_drawn_is_refused_before_compiling(run, store, tiny_wan_folder):
    words = ("compile", "-m", tiny_wan_folder, "--size", "32x32", "--frames", "8")
    result = run(*words, "--store", store.root)
    assert result.code == 2
    assert "num_frames must be 1 + a multiple of 4, got 8" in result.err


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ((), []),
        (("--edit",), ["encoder"]),
        (("--reference-size", "64x96"), ["encoder"]),
        (("--edit", "--reference-size", "64x96"), ["encoder", "encoder"]),
        (("--probe",), ["denoiser/probe"]),
    ],
)
def test_edits_references_and_the_probe_need_further_programs(
    run, store, tiny_flux2_folder, words, more
):
    always = ("programs", "why", "-m", tiny_flux2_folder, "--size", "64x64", "--json")
    found = components(run(*always, *words, "--store", store.root))
    edges = {"text_encoder", "denoiser/prologue", "denoiser/epilogue", "decoder"}
    groups = [name for name in found if "[" in name]
    assert sorted([*edges, *groups, *more]) == sorted(found)


def test_why_knows_the_programs_of_references(run, store, tiny_flux2_folder):
    words = ("programs", "why", "-m", tiny_flux2_folder, "--reference-size", "64x64", "--json")
    found = components(run(*words, "--store", store.root))
    assert [name for name in found if "[" in name] == [
        "denoiser/double[1]/bounded",
        "denoiser/single[2]/bounded",
    ]
