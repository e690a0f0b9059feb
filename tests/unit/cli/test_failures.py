"""Whatever goes wrong becomes one line and the exit code that the documentation promises."""

import pytest

from intonaco import errors
from intonaco.cli.failures import ExitCode, describe, exit_code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestError("x"), 2),
        (errors.PictureError("x"), 2),
        (errors.PromptTooLongError("x"), 2),
        (errors.ReceiptError("x"), 2),
        (errors.ReplayError("x"), 2),
        (errors.ModelNotFoundError("x"), 3),
        (errors.CheckpointError("x"), 3),
        (errors.UnsupportedError("x"), 3),
        (errors.SaveError("x"), 3),
        (OSError(28, "No space left on device"), 3),
        (MemoryError(), 3),
        (errors.GenerationCancelled("x"), 4),
        (KeyboardInterrupt(), 4),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    assert exit_code_of(error) == ExitCode(code)


def test_an_error_of_several_lines_becomes_one_line():
    assert describe(errors.RequestError("a\n  b\nc")) == "a b c"


def test_an_error_of_the_system_names_the_file_and_what_to_look_at():
    text = describe(OSError(28, "No space left on device", "out/a.png"))
    assert text == "'out/a.png': No space left on device; check the path, its rights and its disk"


def test_a_fault_of_ours_says_so_and_how_to_report_it():
    text = describe(KeyError("lost"))
    assert text.startswith("KeyError: 'lost'; this is a fault of intonaco, not yours")
    assert "--debug" in text
