"""The paper-doll world: what training, judging and the demo rest on."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.captions import caption, training_caption, vocabulary
from models.figure import REFERENCE_SIZE, draw_doll, reference_picture
from models.muon import orthogonalize
from models.tokenizer import build_tokenizer
from models.train_denoiser import TEXT_LENGTH, token_weights
from models.world import CLOTHES, NONE, REFERENCE_ATTRIBUTES, VALUES, attributes, doll_of, wear


def test_the_same_seed_draws_the_same_doll():
    assert doll_of(5) == doll_of(5)
    assert draw_doll(doll_of(5)).tobytes() == draw_doll(doll_of(5)).tobytes()


def test_every_value_of_every_attribute_is_drawn_by_lot():
    seen: dict[str, set[str]] = {name: set() for name in VALUES}
    for seed in range(1500):
        for name, value in attributes(doll_of(seed)).items():
            seen[name].add(value)
    assert seen == {name: set(values) for name, values in VALUES.items()}


def test_a_bald_doll_has_no_hair_color_and_a_dress_no_bottom():
    dolls = [doll_of(seed) for seed in range(300)]
    assert all(d.hair_color == NONE for d in dolls if d.hair_style == "bald")
    assert all(d.bottom == NONE for d in dolls if d.top == "dress")


def test_a_doll_wears_exactly_what_the_reference_shows():
    doll, source = doll_of(1), doll_of(2)
    worn = wear(doll, source, CLOTHES)
    assert all(getattr(worn, name) == getattr(source, name) for name in CLOTHES)
    assert worn.scenery == doll.scenery


@pytest.mark.parametrize("name", [n for n in VALUES if n not in ("pet", "held")])
def test_each_attribute_changes_the_picture(name: str):
    base = replace(
        doll_of(3), hat="cap", hat_color="red", hair_style="short", hair_color="black",
        top="shirt", top_color="red", bottom="shorts", bottom_color="blue", pose="standing",
    )  # fmt: skip
    other = next(
        v for v in VALUES[name] if v not in (getattr(base, name), NONE, "bald", "dress", "spiky")
    )
    assert draw_doll(base).tobytes() != draw_doll(replace(base, **{name: other})).tobytes()


@pytest.mark.parametrize("kind", REFERENCE_ATTRIBUTES)
def test_a_reference_is_a_square_of_whole_tokens(kind: str):
    picture = reference_picture(doll_of(4), kind)
    assert picture.size == (REFERENCE_SIZE, REFERENCE_SIZE)
    assert np.asarray(picture).std() > 0


@pytest.mark.parametrize("kind", REFERENCE_ATTRIBUTES)
def test_a_caption_with_a_reference_does_not_name_what_the_reference_shows(kind: str):
    doll = replace(doll_of(6), hat="fedora", hat_color="teal", top="sweater", top_color="purple")
    words = caption(doll, reference=kind).replace(",", "").split()
    shown, named = ("fedora", "sweater") if kind == "head" else ("sweater", "fedora")
    assert shown not in words
    assert named in words


def test_each_word_of_a_caption_is_one_token_and_the_longest_fits():
    tokenizer = build_tokenizer(vocabulary())
    for seed in range(200):
        text = training_caption(doll_of(seed), random.Random(seed), None)
        templated = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False
        )
        ids = tokenizer(templated)["input_ids"]
        assert len(ids) == len(text.replace(",", "").split()) <= TEXT_LENGTH


def test_orthogonalized_matrices_have_singular_values_near_one():
    torch.manual_seed(0)
    singular = torch.linalg.svdvals(orthogonalize(torch.randn(2, 32, 64)))
    # Five Newton-Schulz iterations with Muon's coefficients end between about 0.7 and 1.2.
    assert 0.5 < singular.min().item() <= singular.max().item() < 1.3


def test_token_weights_have_mean_one_and_put_the_mouth_first():
    weights = token_weights("left").view(12, 12)
    assert torch.isclose(weights.mean(), torch.tensor(1.0))
    assert weights[3, 4] == weights.max()
