"""Catalogs on disk: adding, finding, replacing, and what damage is called."""

import json

import pytest

from intonaco.errors import ManifestError, PackDamagedError, SaveError, TemplateMissingError
from intonaco.template.catalog import Catalog, Template, check_template, open_template
from tests.support.templates import small_packed

FIRST, SECOND = "a" * 64, "b" * 64


def _add(root, template_id=FIRST, seed=0) -> Template:
    packed = small_packed(template_id, seed=seed)
    return Catalog(root).add(packed.manifest, packed.contents)


def test_a_catalog_lists_every_template_that_was_added(tmp_path):
    _add(tmp_path, SECOND)
    _add(tmp_path, FIRST)
    assert [entry.template_id for entry in Catalog(tmp_path).entries()] == [FIRST, SECOND]


def test_a_template_is_found_by_the_start_of_its_id(tmp_path):
    added = _add(tmp_path)
    _add(tmp_path, SECOND)
    assert open_template(tmp_path / "aa").manifest == added.manifest


def test_a_template_whose_folder_was_copied_alone_opens_too(tmp_path):
    added = _add(tmp_path / "catalog")
    alone = added.folder.rename(tmp_path / "alone")
    assert open_template(alone).manifest == added.manifest


def test_a_template_of_the_same_id_is_replaced_and_nothing_of_it_stays(tmp_path):
    _add(tmp_path, seed=1)
    newer = _add(tmp_path, seed=2)
    names = {path.name for path in newer.folder.iterdir()}
    assert names == {record.name for record in newer.manifest.files()} | {"manifest.json"}
    assert len(Catalog(tmp_path).entries()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".catalog.lock",
        "a" * 16,
        "catalog.json",
    ]


def test_every_file_of_a_new_template_is_whole(tmp_path):
    assert check_template(_add(tmp_path)) == []


def test_a_changed_a_short_and_a_missing_file_are_each_named(tmp_path):
    template = _add(tmp_path)
    changed, short, missing = template.manifest.files()[:3]
    content = bytearray((template.folder / changed.name).read_bytes())
    content[-1] ^= 1
    (template.folder / changed.name).write_bytes(content)
    (template.folder / short.name).write_bytes(b"short")
    (template.folder / missing.name).unlink()
    problems = check_template(template)
    assert [name in problem for name, problem in zip(
        (changed.name, short.name, missing.name), problems, strict=True
    )] == [True, True, True]  # fmt: skip


def test_an_altered_file_is_refused(tmp_path):
    template = _add(tmp_path)
    path = template.folder / template.manifest.mask.name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(PackDamagedError, match="SHA-256 differs"):
        template.read(template.manifest.mask)


def test_a_manifest_that_the_catalog_does_not_list_is_refused(tmp_path):
    template = _add(tmp_path)
    path = template.folder / "manifest.json"
    fields = json.loads(path.read_text()) | {"title": "another"}
    path.write_text(json.dumps(fields))
    with pytest.raises(ManifestError, match="the catalog lists"):
        Catalog(tmp_path).open(FIRST)


def test_an_id_that_names_no_template_or_several_is_refused_with_those_there_are(tmp_path):
    _add(tmp_path)
    with pytest.raises(TemplateMissingError, match=f"got 0; there are {'a' * 16}"):
        open_template(tmp_path / "c")


def test_a_folder_that_is_no_catalog_is_refused(tmp_path):
    with pytest.raises(TemplateMissingError, match="build a template into it"):
        Catalog(tmp_path).entries()
    with pytest.raises(TemplateMissingError, match=r"has no manifest\.json"):
        open_template(tmp_path / "nothing")


def test_files_that_the_manifest_does_not_name_are_not_written(tmp_path):
    packed = small_packed()
    with pytest.raises(ManifestError, match=r"stray\.png"):
        Catalog(tmp_path).add(packed.manifest, {**packed.contents, "stray.png": b""})


def test_a_catalog_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="cannot write to catalog"):
        _add(tmp_path / "file")
