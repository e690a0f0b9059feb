"""Compiled decoding never leaves its arrays: the comparisons with the plain way, every index checked."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.plane_decoders import needs_numba

ROOT = Path(__file__).parents[2]
COMPARISONS = ("test_unit_decoders.py", "test_plane_decoding.py")
# Compiling everything with checks takes 20 s of a busy machine.
LONGEST_S = 170


@needs_numba
def test_no_index_of_compiled_code_leaves_its_array(tmp_path: Path) -> None:
    # numba reads both when it is imported, so this needs a process of its own.
    checks = {"NUMBA_BOUNDSCHECK": "1", "INTONACO_KERNELS": str(tmp_path)}
    files = [str(ROOT / "tests" / "unit" / "template" / name) for name in COMPARISONS]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, **checks},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
