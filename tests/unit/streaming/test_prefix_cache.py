"""Prefixes on the device: whole or not at all, bounded, the least recently used go first."""

import os

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.prefix_cache import PrefixCache, default_cache_folder


def test_what_was_written_is_read_back(tmp_path):
    cache = PrefixCache(folder=tmp_path / "new")
    cache.write("basis-0.itn", b"content")
    assert cache.read("basis-0.itn", max_bytes=100) == b"content"


def test_no_more_is_read_than_was_asked_for(tmp_path):
    cache = PrefixCache(folder=tmp_path)
    cache.write("a.itn", b"content")
    assert cache.read("a.itn", max_bytes=3) == b"con"


def test_what_is_not_there_reads_as_nothing(tmp_path):
    cache = PrefixCache(folder=tmp_path / "none")
    assert (cache.read("a.itn", max_bytes=9), cache.length("a.itn")) == (b"", 0)


def test_what_is_no_file_reads_as_nothing(tmp_path):
    os.mkfifo(tmp_path / "a.itn.part")
    (tmp_path / "b.itn.part").mkdir()
    cache = PrefixCache(folder=tmp_path)
    assert [cache.read(name, max_bytes=9) for name in ("a.itn", "b.itn")] == [b"", b""]


def test_the_least_recently_used_goes_when_the_bound_is_passed(tmp_path):
    cache = PrefixCache(folder=tmp_path, max_bytes=25)
    for age, name in enumerate(("old.itn", "used.itn")):
        cache.write(name, b"x" * 10)
        os.utime(tmp_path / f"{name}.part", (age, age))
    os.utime(tmp_path / "old.itn.part", (5, 5))
    cache.write("new.itn", b"x" * 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.itn.part", "old.itn.part"]


def test_what_is_larger_than_the_bound_is_not_kept(tmp_path):
    PrefixCache(folder=tmp_path, max_bytes=5).write("a.itn", b"x" * 10)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    cache = PrefixCache(folder=tmp_path)
    cache.write("a.itn", b"first")
    target = tmp_path / "b.itn.part"
    target.mkdir()
    with pytest.raises(OSError, match=r"b\.itn"):
        cache.write("b.itn", b"second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.itn.part", "b.itn.part"]


def test_what_a_killed_process_left_half_written_goes_and_what_is_being_written_stays(tmp_path):
    left, written = tmp_path / ".left.partial", tmp_path / ".written.partial"
    for path in (left, written):
        path.write_bytes(b"half")
    os.utime(left, (5, 5))
    PrefixCache(folder=tmp_path).write("a.itn", b"content")
    assert not left.exists()
    assert written.exists()


@pytest.mark.parametrize("name", ["../a.itn", ".hidden", "a/b", "", "A.ITN"])
def test_a_name_that_is_no_file_of_a_template_is_refused(tmp_path, name):
    with pytest.raises(StreamSettingsError, match="name of a file"):
        PrefixCache(folder=tmp_path).read(name, max_bytes=9)


def test_a_negative_bound_is_refused(tmp_path):
    with pytest.raises(StreamSettingsError, match="must not be below 0"):
        PrefixCache(folder=tmp_path, max_bytes=-1)


def test_the_folder_can_be_chosen_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("INTONACO_PREFIXES", str(tmp_path))
    assert default_cache_folder() == tmp_path
    monkeypatch.delenv("INTONACO_PREFIXES")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "intonaco" / "prefixes"
