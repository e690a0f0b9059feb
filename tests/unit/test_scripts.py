"""Every script of `benchmarks/` and `models/` says what it is for before anything is measured."""

import importlib
import sys

import pytest

from tests.support.documents import ROOT

SCRIPTS = [
    f"{folder}.{path.stem}"
    for folder in ("benchmarks", "models")
    for path in sorted((ROOT / folder).glob("*.py"))
    if '__name__ == "__main__"' in path.read_text()
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_asked_for_help_prints_its_purpose_and_ends(name, monkeypatch, capsys):
    script = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.setenv("COLUMNS", "500")  # no line is broken
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 0
    purpose = script.__doc__.partition("\n")[0]
    assert purpose in capsys.readouterr().out
