"""Runs the command line in this process, in an empty folder, on a tiny random checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from intonaco.cli import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one command printed and returned."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Return a function that runs `intonaco` with the given words in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Run:
        capfd.readouterr()
        code = main([str(word) for word in words])
        captured = capfd.readouterr()
        return Run(code=code, out=captured.out, err=captured.err)

    return call
