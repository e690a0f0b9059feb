"""`intonaco doctor` tells what is there, what is not, and what to do about it."""

import pytest

from intonaco.cli import findings
from intonaco.cli.doctor import table, verdict
from intonaco.cli.findings import Finding

GOOD = Finding(name="torch", is_ok=True, is_needed=True, value="2.13")
OPTIONAL = Finding(name="cuda", is_ok=False, value="no device", remedy="install a CUDA build")
NEEDED = Finding(
    name="model", is_ok=False, is_needed=True, value="no folder", remedy="pass --model FOLDER"
)


def test_a_finding_that_is_not_ok_is_followed_by_its_remedy():
    lines = table([GOOD, OPTIONAL])
    assert [line.split()[0] for line in lines] == ["ok", "absent", "->"]
    assert lines[2].endswith("-> install a CUDA build")


def test_what_nothing_can_be_drawn_without_is_marked_missing():
    assert table([NEEDED])[0].startswith("MISSING")
    assert verdict([GOOD, NEEDED, OPTIONAL]) == "cannot draw yet: model first"


def test_what_is_optional_does_not_stand_in_the_way():
    assert verdict([GOOD, OPTIONAL]) == "ready to draw; not there, and not needed for that: cuda"
    assert verdict([GOOD]) == "ready to draw; nothing is missing"


def test_a_compiler_that_is_not_there_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = findings.find_compiler()
    assert (found.is_ok, found.is_needed) == (False, False)
    assert found.value == "no-such-compiler not found"
    assert "apt-get install g++" in found.remedy


def test_a_compiler_that_does_not_run_is_told_from_one_that_does(monkeypatch, tmp_path):
    broken = tmp_path / "g++"
    broken.write_text("no program")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert "does not run" in findings.find_compiler().value


def test_the_store_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("INTONACO_STORE", str(tmp_path / "store"))
    found = findings.find_store()
    assert found.is_ok
    assert found.value.startswith(f"{tmp_path / 'store'}, ")
    assert not (tmp_path / "store").exists()


def test_a_store_inside_a_file_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("INTONACO_STORE", str(tmp_path / "file" / "store"))
    found = findings.find_store()
    assert not found.is_ok
    assert "INTONACO_STORE" in found.remedy


@pytest.mark.parametrize(
    "find",
    [
        findings.find_python,
        findings.find_processor,
        findings.find_bfloat16,
        findings.find_memory,
        findings.find_torch,
        findings.find_cuda,
        findings.find_openvino,
        findings.find_video,
        findings.find_plots,
    ],
)
def test_each_finding_says_something_and_offers_a_remedy_where_it_is_not_ok(find):
    found = find()
    assert found.value
    assert found.is_ok or found.remedy
