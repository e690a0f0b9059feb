"""What the README tells a newcomer to type works, on the built-in model, without a warning."""

import shlex

from tests.support.documents import ROOT, code_blocks, code_lines

README = (ROOT / "README.md").read_text()


def test_every_command_of_the_readme_draws_without_a_warning(run, tmp_path):
    (tmp_path / "src").symlink_to(ROOT / "src")
    commands = [
        shlex.split(line)[1:]
        for line in code_lines(README, language="sh")
        if line.startswith(".venv/bin/intonaco")
    ]
    assert {words[0] for words in commands} >= {"generate", "edit", "replay", "doctor"}
    failed = [result for words in commands if (result := run(*words)).code or result.err]
    assert failed == []


def test_the_python_of_the_readme_draws_a_picture(run, tmp_path):
    # `run` is here for its empty folder.
    (block,) = code_blocks(README, language="python")
    exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "doll.png").is_file()
