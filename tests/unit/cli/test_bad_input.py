"""Whatever a person gets wrong: one line that names setting, value, rule and remedy; no file left."""

import json
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image


def _only_error(result):
    """Return the one line that a failed command printed."""
    assert result.out == ""
    assert "Traceback" not in result.err
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.fixture
def refused(run, tmp_path):
    """Return a function that runs a command which must fail and leave the folder as it was."""

    def call(*words, code):
        before = sorted(tmp_path.rglob("*"))
        result = run(*words)
        assert result.code == code, result
        assert sorted(tmp_path.rglob("*")) == before
        return _only_error(result)

    return call


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["--seed", "nan"], 2, ["--seed", "'nan'", "whole number", "--seed 7"]),
        (["--seed", "-1"], 2, ["seed", "-1", "0.."]),
        (["--seed", str(2**64)], 2, ["seed", str(2**64)]),
        (["--size", "100x64"], 2, ["width", "100", "16", "96"]),
        (["--size", "64"], 2, ["--size", "'64'", "WIDTHxHEIGHT", "192x192"]),
        (["--size", "0x64"], 2, ["width", "0"]),
        (["--size", "999999x64"], 2, ["width", "999999"]),
        (["--steps", "0"], 2, ["num_steps", "0", "1.."]),
        (["--steps", "many"], 2, ["--steps", "'many'", "--steps 8"]),
        (["--dtype", "float7"], 3, ["dtype", "'float7'", "float32, bfloat16"]),
        (["--device", "abacus"], 3, ["device", "'abacus'", "'cpu'"]),
        (["--reference", "nowhere.png"], 2, ["references[0]", "nowhere.png", "does not exist"]),
        (["--output", "a.jpg"], 3, ["--output", "'a.jpg'", ".png", "a.png"]),
        (["--output", "no/such/a.png"], 3, ["--output", "no/such", "mkdir -p"]),
        (["--output", "."], 3, ["--output", ".png"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_setting_of_generate_is_named(refused, tiny_flux2_folder, words, code, parts):
    line = refused("generate", "a girl", "-m", tiny_flux2_folder, *words, code=code)
    assert [part for part in parts if part not in line] == []


def test_a_prompt_that_is_too_long_names_its_length_and_the_limit(refused, tiny_flux2_folder):
    line = refused("generate", "a girl " * 40, "-m", tiny_flux2_folder, code=2)
    assert "at most 24 tokens" in line
    assert "got 81; leave out 57" in line


def test_an_unknown_model_folder_names_what_a_model_can_be(refused):
    line = refused("generate", "a girl", "-m", "nowhere", code=3)
    assert "model folder nowhere does not exist" in line
    assert "diffusers' format" in line


def test_a_folder_that_is_no_model_names_the_file_it_lacks(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "model_index.json" in refused("generate", "a girl", "-m", "empty", code=3)


@pytest.fixture
def copied_model(tiny_flux2_folder, tmp_path):
    return Path(shutil.copytree(tiny_flux2_folder, tmp_path / "model"))


@pytest.mark.parametrize("component", ["transformer", "vae", "text_encoder"])
def test_truncated_weights_name_the_file_and_the_remedy(refused, copied_model, component):
    weights = next((copied_model / component).glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    line = refused("generate", "a girl", "-m", "model", code=3)
    assert f"{component}/{weights.name} is damaged or cut short" in line
    assert "copy it again" in line


def test_weights_with_a_lying_header_are_refused_before_memory_is_taken(refused, copied_model):
    weights = next((copied_model / "transformer").glob("*.safetensors"))
    weights.write_bytes(struct.pack("<Q", 2**62) + weights.read_bytes()[8:])
    assert "is damaged or cut short" in refused("generate", "a girl", "-m", "model", code=3)


def test_a_configuration_that_is_no_json_names_the_file(refused, copied_model):
    (copied_model / "model_index.json").write_text("{")
    assert "model_index.json" in refused("generate", "a girl", "-m", "model", code=3)


@pytest.mark.parametrize(
    "component", ["transformer", "vae", "text_encoder", "tokenizer", "scheduler"]
)
def test_a_missing_component_is_named(refused, copied_model, component):
    shutil.rmtree(copied_model / component)
    assert component in refused("generate", "a girl", "-m", "model", code=3)


def _png(*chunks):
    """Return PNG bytes of (type, data) chunks, with right checksums."""
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _header(width, height):
    return b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)


HOSTILE_PICTURES = {
    "empty": b"",
    "text": b"this is no picture",
    "signature-only": _png(),
    "bomb": _png(_header(60_000, 60_000), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")),
    "cut-short": _png(
        _header(64, 64), (b"IDAT", zlib.compress(b"\0" * 12_352)[:-6]), (b"IEND", b"")
    ),
    "no-pixels": _png(_header(64, 64), (b"IEND", b"")),
    "bad-zlib": _png(_header(64, 64), (b"IDAT", b"\xff" * 40), (b"IEND", b"")),
    "endless-length": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 2**31) + b"IHDR",
    "text-bomb": _png(
        _header(64, 64),
        (b"zTXt", b"intonaco\0\0" + zlib.compress(b"0" * 50_000_000)),
        (b"IDAT", zlib.compress(b"\0" * 12_352)),
        (b"IEND", b""),
    ),
}


@pytest.mark.parametrize("name", [name for name in HOSTILE_PICTURES if name != "text-bomb"])
def test_a_hostile_reference_is_refused_by_name(refused, tiny_flux2_folder, tmp_path, name):
    (tmp_path / "hostile.png").write_bytes(HOSTILE_PICTURES[name])
    words = ("generate", "a girl", "-m", tiny_flux2_folder, "-r", "hostile.png")
    assert "references[0] hostile.png" in refused(*words, code=2)


@pytest.mark.parametrize("name", HOSTILE_PICTURES)
def test_replaying_a_hostile_picture_is_refused_by_name(refused, tiny_flux2_folder, tmp_path, name):
    (tmp_path / "hostile.png").write_bytes(HOSTILE_PICTURES[name])
    assert "hostile.png" in refused("replay", "hostile.png", "-m", tiny_flux2_folder, code=2)


def test_replaying_a_picture_without_a_receipt_says_what_to_use(
    refused, tiny_flux2_folder, tmp_path
):
    Image.new("RGB", (64, 64)).save(tmp_path / "plain.png")
    line = refused("replay", "plain.png", "-m", tiny_flux2_folder, code=2)
    assert "carries no receipt" in line


def test_a_mask_of_another_size_names_both_sizes(refused, tiny_flux2_folder, tmp_path):
    Image.new("RGB", (64, 64)).save(tmp_path / "template.png")
    Image.new("L", (32, 64)).save(tmp_path / "mask.png")
    words = ("edit", "template.png", "--mask", "mask.png", "-p", "a girl", "-m", tiny_flux2_folder)
    line = refused(*words, code=2)
    assert "64 x 64" in line
    assert "32 x 64" in line


def test_a_folder_that_cannot_be_written_is_named_before_the_model_is_loaded(refused):
    line = refused("generate", "a girl", "-m", "nowhere", "-o", "/proc/a.png", code=3)
    assert "'/proc' cannot be" in line
    assert "--output" in line


def test_an_error_of_a_machine_readable_command_is_one_json_object(run, tiny_flux2_folder):
    result = run("generate", "a girl", "-m", tiny_flux2_folder, "--size", "100x64", "--json")
    fields = json.loads(result.out)
    assert (result.code, fields["exit_code"], fields["error"]["type"]) == (2, 2, "RequestError")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["paint"], "No such command 'paint'"),
        (["generate"], "PROMPT"),
        (["generate", "a girl", "--sed", "1"], "--seed"),
        (["edit", "template.png"], "--mask"),
    ],
)
def test_a_mistyped_command_is_one_line_that_names_its_help(refused, words, part):
    line = refused(*words, code=2)
    assert part in line
    assert "--help" in line
