"""What `intonaco compile` and `intonaco programs why` say of programs that are all compiled once."""

import json

import pytest

from intonaco.cli import main


def check_progress(stderr: str, num_programs: int) -> None:
    """One line for each program, counted up."""
    lines = [line for line in stderr.splitlines() if line.startswith("compiled")]
    assert [line.split(":")[0] for line in lines] == [
        f"compiled {index} of {num_programs}" for index in range(1, num_programs + 1)
    ]


def check_second_run(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is compiled any more."""
    assert main(["compile", *words]) == 0
    assert "compiling" not in capsys.readouterr().err


def check_why(words: list[str], capsys: pytest.CaptureFixture[str], num_programs: int) -> None:
    """Every program is found in the store."""
    assert main(["programs", "why", *words, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["programs"]
    assert [answer["is_stored"] for answer in answers] == [True] * num_programs
