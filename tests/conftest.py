"""Fixtures that several folders of tests use, and how tests share a machine when several run at once."""

import os
from pathlib import Path

import pytest

IS_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ
if IS_ONE_OF_SEVERAL:
    # Before torch is imported, and for every process that a test starts. Threads of several tests on
    # the same cores wait for each other at every operation: 276 s became 68 for six files.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that wait for a compiler first, so that none of them is left for the end."""
    items.sort(key=lambda item: item.get_closest_marker("compiles") is None)


@pytest.fixture(scope="session")
def tiny_flux2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random FLUX.2 klein checkpoint in diffusers' format; tests must not change it."""
    from tests.support.tiny_flux2 import build_tiny_flux2

    return build_tiny_flux2(tmp_path_factory.mktemp("checkpoints") / "tiny-flux2")
