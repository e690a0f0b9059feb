"""What OpenVINO may run where: bfloat16 only on processors that multiply it."""

from importlib import util

import pytest
import torch

from intonaco.backends.inductor import InductorBackend
from intonaco.backends.machine import instruction_set
from intonaco.backends.openvino import OpenVinoBackend
from intonaco.errors import UnsupportedProgramError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.registry import load_family_on_programs
from intonaco.programs.compiler import ensure_programs
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore
from tests.support.program_builders import affine_spec

WITHOUT = OpenVinoBackend(instructions="avx avx2 avx512f avx512_vnni fma")
WITH = [
    OpenVinoBackend(instructions="avx avx2 avx512f avx512_bf16 fma"),
    OpenVinoBackend(instructions="amx_bf16 amx_int8 amx_tile avx512f"),
]
BFLOAT16 = ("bfloat16", "w8a16")
CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", BFLOAT16)
def test_bfloat16_without_units_for_it_names_setting_value_rule_and_what_works(precision):
    (reason,) = WITHOUT.supports(affine_spec(precision=precision))

    assert reason.startswith(
        f"dtype={precision!r} multiplies bfloat16, which needs a processor with"
    )
    assert "amx_bf16 or avx512_bf16" in reason
    assert reason.endswith("choose dtype='float32', or dtype='w8a8' on inductor")


@pytest.mark.parametrize("precision", BFLOAT16)
@pytest.mark.parametrize("backend", WITH, ids=["avx512", "amx"])
def test_bfloat16_with_units_for_it_is_served(backend, precision):
    assert backend.supports(affine_spec(precision=precision)) == ()


def test_what_the_refusal_advises_works():
    assert WITHOUT.supports(affine_spec(precision="float32")) == ()
    assert InductorBackend().supports(affine_spec(precision="w8a8")) == ()


def test_a_processor_that_is_not_known_has_no_units():
    assert OpenVinoBackend(instructions="arm64").supports(affine_spec(precision="bfloat16"))


@pytest.mark.skipif(
    util.find_spec("openvino") is None, reason="the openvino extra is not installed"
)
def test_the_processor_is_read_where_none_is_given():
    assert OpenVinoBackend().fingerprint()["instruction_set"] == instruction_set()


@pytest.mark.parametrize("precision", [*BFLOAT16, "w8a8"])
def test_a_model_is_refused_before_its_weights_are_written(tiny_flux2_folder, tmp_path, precision):
    library = ProgramLibrary(store=ArtifactStore(tmp_path / "store"), backend=WITHOUT)
    checkpoint = read_checkpoint(tiny_flux2_folder)

    with pytest.raises(UnsupportedProgramError, match=f"backend 'openvino': dtype='{precision}'"):
        load_family_on_programs(checkpoint, library, precision=precision, device=CPU)
    assert not library.store.root.exists()


def test_a_model_in_bfloat16_loads_where_there_are_units(tiny_flux2_folder, tmp_path):
    library = ProgramLibrary(store=ArtifactStore(tmp_path / "store"), backend=WITH[0])
    checkpoint = read_checkpoint(tiny_flux2_folder)

    family = load_family_on_programs(checkpoint, library, precision="bfloat16", device=CPU)
    assert family.precision == "bfloat16"


@pytest.mark.parametrize("may_compile", [False, True])
def test_programs_are_refused_once_for_all_components_also_where_nothing_may_compile(
    tmp_path, may_compile
):
    specs = [affine_spec(precision="bfloat16", component=name) for name in ("test/one", "test/two")]
    with pytest.raises(UnsupportedProgramError) as caught:
        ensure_programs(ArtifactStore(tmp_path), WITHOUT, specs, may_compile=may_compile)

    message = str(caught.value)
    assert message.startswith(
        "backend 'openvino' cannot compile test/one, test/two: dtype='bfloat16'"
    )
    assert message.count("choose dtype='float32'") == 1
