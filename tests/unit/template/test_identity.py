"""A template's identity: equal where everything is, refused with the field that differs."""

import numpy as np
import pytest
import torch

from intonaco.errors import TemplateIdentityError
from intonaco.template.identity import (
    REMEDIES,
    TemplateIdentity,
    latents_digest,
    mask_digest,
    require_same,
)

FIELDS = {
    "model_digest": "a" * 64,
    "family": "flux2",
    "dtype": "float32",
    "width": 192,
    "height": 128,
    "num_steps": 4,
    "sigmas": (1.0, 0.75, 0.5, 0.25, 0.0),
    "seed": 7,
    "image_index": 0,
    "prompt": "a doll",
    "picture_sha256": "b" * 64,
    "latents_sha256": "c" * 64,
    "mask_sha256": "d" * 64,
}
OTHERS = {
    "model_digest": "e" * 64,
    "family": "wan",
    "dtype": "bfloat16",
    "width": 208,
    "height": 144,
    "num_steps": 5,
    "sigmas": (1.0, 0.7, 0.5, 0.25, 0.0),
    "seed": 8,
    "image_index": 1,
    "prompt": "a doll, a hat",
    "picture_sha256": "f" * 64,
    "latents_sha256": "0" * 64,
    "mask_sha256": "1" * 64,
}


def test_equal_fields_have_equal_digests():
    assert TemplateIdentity(**FIELDS).digest == TemplateIdentity(**FIELDS).digest


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_changes_the_digest(field):
    changed = TemplateIdentity(**{**FIELDS, field: OTHERS[field]})

    assert changed.digest != TemplateIdentity(**FIELDS).digest


def test_the_digest_survives_json():
    identity = TemplateIdentity(**FIELDS)

    assert (
        TemplateIdentity.model_validate_json(identity.model_dump_json()).digest == identity.digest
    )


@pytest.mark.parametrize("field", REMEDIES)
def test_a_difference_is_refused_with_its_field_and_a_remedy(field):
    with pytest.raises(TemplateIdentityError, match=rf"^{field}: .*; {REMEDIES[field]}$"):
        require_same(TemplateIdentity(**FIELDS), {field: OTHERS[field]})


def test_the_first_field_that_differs_is_named():
    with pytest.raises(TemplateIdentityError, match=r"^dtype: "):
        require_same(
            TemplateIdentity(**FIELDS), {"family": "flux2", "dtype": "bfloat16", "width": 208}
        )


def test_equal_fields_are_accepted():
    require_same(TemplateIdentity(**FIELDS), {field: FIELDS[field] for field in REMEDIES})


def test_latents_of_equal_numbers_and_other_shape_differ():
    latents = torch.zeros(1, 4, 6)

    assert latents_digest(latents) != latents_digest(latents.reshape(1, 6, 4))


def test_latents_in_another_memory_layout_have_the_same_digest():
    latents = torch.arange(24.0).reshape(1, 4, 6)
    turned = latents.transpose(1, 2).contiguous().transpose(1, 2)

    assert latents_digest(turned) == latents_digest(latents)


def test_masks_that_differ_in_one_token_differ():
    mask = np.zeros((4, 6), dtype=bool)
    other = mask.copy()
    other[3, 5] = True

    assert mask_digest(mask) != mask_digest(other)
