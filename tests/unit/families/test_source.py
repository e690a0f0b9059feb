from pathlib import Path

import pytest

from intonaco.errors import ModelNotFoundError
from intonaco.families.source import find_folder, shipped_folder


def refuse(hub_id: str) -> str:
    raise AssertionError(f"asked the hub for {hub_id}")


def test_nothing_given_is_the_shipped_model():
    assert find_folder(None, fetch=refuse) == shipped_folder()


def test_a_folder_that_exists_is_never_asked_of_the_hub(tmp_path: Path, monkeypatch):
    (tmp_path / "owner/name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    assert find_folder("owner/name", fetch=refuse) == Path("owner/name")


@pytest.mark.parametrize("path", ["/absent/folder", "./owner/name", "a/b/c", "folder"])
def test_what_cannot_be_a_hub_id_stays_a_path(path: str):
    assert find_folder(path, fetch=refuse) == Path(path)


def test_a_hub_id_is_fetched(tmp_path: Path):
    asked: list[str] = []

    def fetch(hub_id: str) -> str:
        asked.append(hub_id)
        return str(tmp_path)

    assert find_folder("owner/name", fetch=fetch) == tmp_path
    assert asked == ["owner/name"]


def test_a_hub_id_that_cannot_be_had_is_a_one_line_error_with_the_remedy():
    def fetch(hub_id: str) -> str:
        raise OSError("no route\nto host")

    with pytest.raises(
        ModelNotFoundError, match=r"owner/name .* \(no route to host\); .* pass the path"
    ) as caught:
        find_folder("owner/name", fetch=fetch)
    assert "\n" not in str(caught.value)
