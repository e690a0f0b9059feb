"""Fixtures that several folders of tests use."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_flux2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random FLUX.2 klein checkpoint in diffusers' format; tests must not change it."""
    from tests.support.tiny_flux2 import build_tiny_flux2

    return build_tiny_flux2(tmp_path_factory.mktemp("checkpoints") / "tiny-flux2")
