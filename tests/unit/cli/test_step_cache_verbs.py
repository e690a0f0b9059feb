"""`calibrate`, `compare` and `--step-cache`: what is refused before any work."""

import pytest

from intonaco.cli.prompts import read_prompts
from intonaco.errors import RequestError


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--speedup", "1.6", "--psnr", "30"], "exclude each other"),
        (["--speedup", "fast"], "--speedup must be a number, got 'fast'"),
        (["--speedup", "0.5"], "speedup must be above 1"),
        (["--psnr", "nan"], "--psnr must be a number"),
        (["--psnr", "30", "--share", "2"], "share must be above 0 and at most 1"),
        (["--steps", "many"], "--steps must be a whole number"),
    ],
)
def test_a_target_that_cannot_be_is_refused_before_the_model_is_loaded(run, words, reason):
    done = run("calibrate", "--prompts", "prompts.txt", *words)
    assert done.code == 2
    assert reason in done.err


@pytest.mark.parametrize("verb", ["calibrate", "compare"])
def test_a_missing_list_of_prompts_is_one_line(run, verb):
    done = run(verb, "--prompts", "none.txt")
    assert done.code == 2
    assert "--prompts 'none.txt' cannot be read" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("steps", ["0", "1001", "x"])
def test_compare_refuses_step_counts_that_cannot_be(run, steps):
    assert run("compare", "--prompts", "none.txt", "--steps", steps).code == 2


def test_prompts_are_lines_without_blanks_and_comments(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("# dolls\n\na doll \n  a dog\n")
    assert read_prompts(path) == ["a doll", "a dog"]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe"])
def test_a_list_without_prompts_is_refused(tmp_path, content):
    path = tmp_path / "prompts.txt"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"one (prompt )?a line"):
        read_prompts(path)
