import json
import socket
import subprocess
import sys

import pytest

from intonaco.cli import main
from intonaco.cli.serve import parse_fields
from intonaco.errors import ProfileError
from intonaco.serving.profile import ServingProfile


def test_check_prints_the_profile_with_all_its_defaults(capsys, tmp_path):
    file = tmp_path / "profile.yaml"
    file.write_text("max_steps: 9\n")
    words = ["--profile", str(file), "--set", "max_queue=12", "--port", "0", "--check", "--json"]
    assert main(["serve", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == ServingProfile(max_steps=9, max_queue=12, port=0).model_dump(mode="json")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "max_queue"], "--set must be FIELD=VALUE, got 'max_queue'"),
        (["--set", "max_quene=1"], "max_quene is no field; known are model, "),
        (["--set", "sizes=["], "--set sizes: '[' cannot be read as a value"),
        (["--host", "0.0.0.0"], "host '0.0.0.0' can be reached from elsewhere"),
        (["--port", "http"], "--port must be a whole number, got 'http'"),
        (["--profile", "no-such-file.yaml"], "no-such-file.yaml cannot be read"),
    ],
)
def test_what_cannot_be_served_is_one_line(capsys, words, told):
    assert main(["serve", *words, "--check"]) in (2, 3)
    error = capsys.readouterr().err
    assert (told in error, error.count("\n")) == (True, 1)


def test_a_port_that_is_taken_is_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 3
    error = capsys.readouterr().err
    told = (
        f"host 127.0.0.1 and port {port} cannot be bound (Address already in use); choose another"
    )
    assert (told in error, error.count("\n")) == (True, 1)


def test_values_are_read_as_yaml():
    fields = parse_fields(["sizes=[64x64, 96x64]", "log_prompts=true", "model=a=b", "store="])
    assert fields == {
        "sizes": ["64x64", "96x64"],
        "log_prompts": True,
        "model": "a=b",
        "store": None,
    }


def test_a_field_without_a_value_is_refused():
    with pytest.raises(ProfileError, match="must be FIELD=VALUE"):
        parse_fields(["port"])


def test_the_api_process_imports_no_torch():
    code = (
        "import sys, intonaco.serving.server, intonaco.serving.orders\n"
        "print([name for name in ('torch', 'diffusers', 'transformers') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
