"""Edits on a device whose disk, or shared memory, is really full: a small one, mounted for the test."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from intonaco.model import load
from intonaco.template.catalog import Template
from tests.support.catalog_servers import own_server
from tests.support.studio import build_larger_template

DEADLINE_S = 120.0
# Room for some of the files that an edit keeps; two of a file system's pages are its own.
DISK_BYTES = 32_768
SUFFIX = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Studio:
    model: Path
    template: Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """How a command line ended, and what was on the small disk then."""

    status: int
    output: str
    errors: str
    kept: dict[str, bytes]


@pytest.fixture(scope="module")
def studio(tiny_flux2_folder, tmp_path_factory) -> Studio:
    model = load(tiny_flux2_folder)
    template = build_larger_template(model, tmp_path_factory.mktemp("catalog"))
    return Studio(model=tiny_flux2_folder, template=template)


@pytest.fixture(scope="module")
def url(studio) -> Iterator[str]:
    with own_server(studio.template.folder.parent) as server:
        yield f"{server}/{studio.template.folder.name}"


def edit_with_small(folder: Path, url: str, studio: Studio, scratch: Path) -> Edited:
    """Edit by the command line while `folder` is a file system of DISK_BYTES, seen by it alone."""
    if os.geteuid() != 0:
        pytest.skip("a file system is mounted by root alone")
    words = ["edit", "--template", url, "-m", str(studio.model), "-p", "a tall girl", "--json"]
    command = shlex.join(
        [sys.executable, "-m", "intonaco", *words, "-o", str(scratch / "edited.png")]
    )
    kept = scratch / "kept"
    kept.mkdir()
    mount = f"mount -t tmpfs -o size={DISK_BYTES} none {shlex.quote(str(folder))} || exit 99"
    script = f"{mount}\n{command}\nstatus=$?\ncp -a {folder}/. {kept}\nexit $status"
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ, "INTONACO_PREFIXES": str(scratch / "prefixes")},
    )
    if ended.returncode == 99 or "unshare failed" in ended.stderr:
        pytest.skip(f"this machine mounts no file system for a test: {ended.stderr.strip()}")
    return Edited(
        status=ended.returncode,
        output=ended.stdout,
        errors=ended.stderr,
        kept={path.name: path.read_bytes() for path in kept.iterdir()},
    )


def test_a_full_disk_costs_the_next_edit_and_leaves_nothing_half_written(url, studio, tmp_path):
    (tmp_path / "prefixes").mkdir()
    edited = edit_with_small(tmp_path / "prefixes", url, studio, tmp_path)
    assert edited.status == 0, edited.errors
    troubles = json.loads(edited.output)["stream"]["troubles"]
    assert any("cannot be written (No space left on device)" in one for one in troubles)
    with Image.open(tmp_path / "edited.png") as picture:
        assert picture.size == (192, 192)
    template = studio.template
    contents = {record.name: template.read(record) for record in template.manifest.files()}
    assert edited.kept
    for name, content in edited.kept.items():
        assert name.endswith(SUFFIX)
        assert contents[name.removesuffix(SUFFIX)].startswith(content)


def test_shared_memory_that_is_full_is_told_before_the_edit_begins(url, studio, tmp_path):
    edited = edit_with_small(Path("/dev/shm"), url, studio, tmp_path)
    assert edited.status not in {0, 99}
    assert "MB of shared memory, which cannot be had" in edited.errors
    assert "Traceback" not in edited.errors
    assert edited.kept == {}
