"""OpenVINO tells nobody that it is used."""

import subprocess
import sys
from importlib import util

import pytest

PROGRAM = """
from intonaco.backends.openvino import import_quietly
import_quietly()
from openvino.tools.ovc import convert_impl, telemetry_utils
print(telemetry_utils.tm.__name__, convert_impl.tm.__name__)
"""


@pytest.mark.skipif(
    util.find_spec("openvino") is None, reason="the openvino extra is not installed"
)
def test_importing_and_converting_is_reported_to_nobody():
    # In a process of its own: this one may have imported it.
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["openvino.tools.ovc.telemetry_stub"] * 2
