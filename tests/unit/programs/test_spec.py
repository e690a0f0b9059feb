"""What is in a program's key, and what is not."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from intonaco.errors import ProgramKeyError
from intonaco.programs.spec import ProgramSpec, canonical_json, key_differences, make_key
from tests.support.program_builders import affine_spec, tensor

FINGERPRINT = {"backend": "fake", "torch": "1"}


def test_equal_specs_have_equal_digests_whatever_the_order_of_their_fields():
    first = affine_spec(config={"features": 64, "other": 1})
    second = affine_spec(config={"other": 1, "features": 64})
    assert make_key(first, FINGERPRINT).digest == make_key(second, FINGERPRINT).digest


@pytest.mark.parametrize(
    "change",
    [
        {"component": "test/other"},
        {"config": {"features": 65}},
        {"precision": "bfloat16"},
        {"device": "cuda"},
        {"inputs": (tensor("x", (1, 5, 64)), tensor("gate", (1, 1, 64)))},
        {"constants": ()},
        {"parallel": {"tp": 2}},
        {"needs": ("collectives",)},
        {"sources": ("intonaco.programs.int8",)},
        {"libraries": ("pydantic",)},
    ],
)
def test_each_field_of_the_spec_changes_the_digest(change):
    spec = affine_spec()
    changed = spec.model_copy(update=change)
    assert make_key(spec, FINGERPRINT).digest != make_key(changed, FINGERPRINT).digest


def test_the_fingerprint_changes_the_digest():
    spec = affine_spec()
    other = make_key(spec, {**FINGERPRINT, "torch": "2"})
    assert other.digest != make_key(spec, FINGERPRINT).digest


def test_the_text_of_the_builder_changes_the_digest(tmp_path, monkeypatch):
    source = tmp_path / "a_builder_of_this_test.py"
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for text in ("def build(): ...", "def build(): return 1"):
        source.write_text(text)
        key = make_key(affine_spec(builder="a_builder_of_this_test:build"), FINGERPRINT)
        digests.add(key.digest)
    assert len(digests) == 2


def test_differences_name_the_field_and_both_values():
    spec = affine_spec()
    inputs = (tensor("x", (1, 5, 64)), tensor("gate", (1, 1, 64)))
    wanted = make_key(spec.model_copy(update={"inputs": inputs}), FINGERPRINT)
    differences = key_differences(wanted, make_key(spec, FINGERPRINT))
    assert differences == {"spec.inputs.x.shape": ("[1,5,64]", "[1,4,64]")}


def test_a_builder_that_cannot_be_found_is_refused():
    with pytest.raises(ProgramKeyError, match=r"got module 'no.such.module'; give the builder as"):
        make_key(affine_spec(builder="no.such.module:build"), FINGERPRINT)


def test_a_library_that_is_not_installed_is_refused():
    with pytest.raises(ProgramKeyError, match=r"got 'no-such-library'; install it with"):
        make_key(affine_spec(libraries=("no-such-library",)), FINGERPRINT)


def test_a_spec_is_frozen():
    with pytest.raises(ValidationError):
        affine_spec().component = "other"


def test_a_spec_refuses_unknown_fields():
    with pytest.raises(ValidationError):
        affine_spec(rank=0)


def test_canonical_json_refuses_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": float("nan")})


def test_a_spec_survives_json():
    spec = affine_spec()
    assert ProgramSpec.model_validate_json(spec.model_dump_json()) == spec


def test_specs_are_read_without_torch():
    code = (
        "import sys, intonaco.programs.store, intonaco.programs.spec; print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
