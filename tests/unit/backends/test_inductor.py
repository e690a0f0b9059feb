"""What the loader of compiled programs says where it cannot load one."""

import tempfile

import pytest

from intonaco.backends.inductor import InductorBackend
from intonaco.errors import ArtifactDamagedError
from intonaco.programs.builders import module_builder
from tests.support.program_builders import affine_spec


def test_a_program_that_cannot_be_unpacked_names_both_folders(tmp_path):
    spec = affine_spec()
    (tmp_path / "program.pt2").write_bytes(b"no program")

    with pytest.raises(ArtifactDamagedError) as caught:
        InductorBackend().load(spec, module_builder(spec), tmp_path)
    message = str(caught.value)
    assert f"the program of 'test/affine' in {tmp_path} cannot be loaded (" in message
    assert f"see that {tempfile.gettempdir()} ($TMPDIR), where it is unpacked, has room" in message
