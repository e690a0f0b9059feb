"""A picture is saved whole or not at all."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from intonaco.errors import SaveError
from intonaco.pipelines.picture import Picture, write_files
from tests.unit.pipelines.test_receipt import RECEIPT


@pytest.fixture
def picture() -> Picture:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return Picture(image=Image.fromarray(pixels), receipt=RECEIPT)


@contextmanager
def small_disk() -> Iterator[None]:
    """Let no file grow beyond 2,000 bytes, as a full disk would.

    For a block only: pytest's own output may be a file that is longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_saved_pixels_are_the_pictures(picture: Picture, tmp_path: Path):
    path = picture.save(tmp_path / "a.png")

    with Image.open(path) as opened:
        assert opened.tobytes() == picture.image.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


def test_the_receipt_is_written_beside_on_request(picture: Picture, tmp_path: Path):
    picture.save(tmp_path / "a.png", receipt_beside=True)

    assert json.loads((tmp_path / "a.json").read_text())["seed"] == RECEIPT.seed


def test_a_name_without_png_is_refused_with_one_that_works(picture: Picture, tmp_path: Path):
    with pytest.raises(SaveError, match=r"must end in .png, got 'a.jpg'; .* use 'a.png'"):
        picture.save(tmp_path / "a.jpg")


def test_a_folder_that_does_not_exist_is_refused(picture: Picture, tmp_path: Path):
    with pytest.raises(SaveError, match="choose an existing, writable folder"):
        picture.save(tmp_path / "absent" / "a.png")


def test_a_full_disk_leaves_nothing_behind(picture: Picture, tmp_path: Path):
    with pytest.raises(SaveError, match="with free space"), small_disk():
        picture.save(tmp_path / "a.png", receipt_beside=True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_picture_of_before(picture: Picture, tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"before")

    with pytest.raises(SaveError), small_disk():
        picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == b"before"


def test_all_files_are_written_or_none(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "absent" / "second"

    with pytest.raises(SaveError):
        write_files({first: b"1", second: b"2"})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(picture: Picture, tmp_path: Path):
    # A file in the folder's place refuses even the superuser, whom permissions do not stop.
    (tmp_path / "file").write_text("")

    with pytest.raises(SaveError):
        picture.save(tmp_path / "file" / "a.png")
