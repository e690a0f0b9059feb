import subprocess
import sys

import pytest

from intonaco.errors import CheckpointError, PromptTooLongError
from intonaco.families.film_prompt import FilmPrompts, clean_prompt
from intonaco.families.source import shipped_folder

FOLDER = shipped_folder() / "tokenizer"


def test_a_prompt_is_read_as_one_line_of_plain_text():
    assert clean_prompt("  a &amp;amp; b\n\n c ") == "a & b c"


def test_a_prompt_of_more_tokens_than_the_model_reads_is_refused():
    prompts = FilmPrompts(FOLDER, max_sequence_length=3)
    assert prompts.count_tokens("a doll") <= 3
    with pytest.raises(PromptTooLongError, match="prompt must have at most 3 tokens, got "):
        prompts.count_tokens("a doll, a doll, a doll")


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be loaded as a tokenizer"):
        FilmPrompts(tmp_path, max_sequence_length=3)


def test_counting_needs_no_torch():
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from intonaco.families.film_prompt import FilmPrompts\n"
        f"FilmPrompts(Path({str(FOLDER)!r}), max_sequence_length=9).count_tokens('a doll')\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
