"""From a template's files to what an edit uses: budgets, and parts that do not belong together."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.errors import ManifestError, PackDamagedError, RequestError
from intonaco.template.catalog import Catalog, Template
from intonaco.template.loading import load_template, open_parts, plan_prefixes, read_identity
from intonaco.template.manifest import TemplateManifest, file_record
from intonaco.template.verify import verify_template
from tests.support.templates import readable_packed, small_parts

PACKED = readable_packed()


@pytest.fixture
def template(tmp_path) -> Template:
    return Catalog(tmp_path).add(PACKED.manifest, PACKED.contents)


def _changed(**changes) -> TemplateManifest:
    return PACKED.manifest.model_copy(update=changes)


def _with_file(name: str, content: bytes, suffix: str):
    """Return the manifest with another file in place of one, and a function that reads it."""
    record = file_record(name, content, suffix)
    contents = {**PACKED.contents, record.name: content}
    return _changed(**{name: record}), lambda wanted: contents[wanted.name]


def _png(image: Image.Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, format="PNG")
    return encoded.getvalue()


def test_a_template_loads_with_its_picture_mask_latents_and_identity(template):
    loaded, parts = load_template(template), small_parts()
    assert loaded.picture.size == (64, 64)
    assert (loaded.tokens_YX == parts.is_edited_YX).all()
    assert torch.equal(loaded.clean, torch.from_numpy(parts.latents))
    assert (loaded.identity.digest, loaded.is_exact) == (PACKED.manifest.template_id, False)
    assert (loaded.editable_pixels()[:16].all(), loaded.editable_pixels()[16:].any()) == (
        True,
        False,
    )


def test_without_a_budget_every_file_is_read_whole(template):
    assert load_template(template).num_bytes == PACKED.manifest.state_bytes


def test_a_budget_is_kept_and_most_of_it_used(template):
    budget = PACKED.manifest.state_bytes // 2
    num_bytes = load_template(template, budget_bytes=budget).num_bytes
    assert 0.8 * budget < num_bytes <= budget


def test_a_budget_below_the_floors_is_refused(template):
    with pytest.raises(RequestError, match="budget must be at least"):
        load_template(template, budget_bytes=10)


def test_files_that_hold_nothing_are_not_read_under_a_budget():
    planned = plan_prefixes(PACKED.manifest, budget_bytes=PACKED.manifest.state_bytes - 1)
    assert {length for _, (step, _), length in planned if step is not None} == {0}


def test_an_identity_that_is_not_the_templates_id_is_refused():
    other = readable_packed(seed=1).manifest
    with pytest.raises(ManifestError, match="is not the digest of its identity"):
        read_identity(_changed(identity=other.identity))


def test_an_identity_with_unknown_fields_is_refused():
    with pytest.raises(ManifestError, match=r"identity\.extra"):
        read_identity(_changed(identity={**PACKED.manifest.identity, "extra": 1}))


def test_another_picture_of_the_same_size_is_refused():
    manifest, read = _with_file("picture", _png(Image.new("RGB", (64, 64))), "png")
    with pytest.raises(ManifestError, match="picture_sha256 differ"):
        open_parts(manifest, read)


def test_a_picture_of_another_size_is_refused_before_it_is_decoded():
    manifest, read = _with_file("picture", _png(Image.new("RGB", (4000, 4000))), "png")
    with pytest.raises(ManifestError, match="must be 64 x 64 pixels"):
        open_parts(manifest, read)


def test_a_picture_that_is_none_is_refused():
    manifest, read = _with_file("mask", b"no picture", "png")
    with pytest.raises(PackDamagedError, match="is no PNG"):
        open_parts(manifest, read)


def test_a_whole_template_verifies(template):
    assert verify_template(template) == []


def test_a_template_of_another_codec_does_not_verify(template):
    strange = replace(template, manifest=_changed(codec="another"))
    assert ["codec" in problem for problem in verify_template(strange)] == [True]


def test_a_damaged_file_does_not_verify(template):
    path = template.folder / PACKED.manifest.bases[0].name
    content = np.frombuffer(path.read_bytes(), np.uint8).copy()
    content[100] ^= 1
    path.write_bytes(content.tobytes())
    assert ["SHA-256" in problem for problem in verify_template(template)] == [True]
