from fractions import Fraction

import pytest

from intonaco.errors import FieldError
from intonaco.serving.bodies import VideoBody
from intonaco.serving.checks import Limits
from intonaco.serving.film_orders import film_order, frames_of, seconds_of
from intonaco.serving.profile import ServingProfile
from tests.support.fake_model_process import make_film_facts

FACTS = make_film_facts()


def order(facts=FACTS, **fields):
    body = VideoBody.model_validate({"prompt": "a doll", **fields})
    return film_order(body, Limits(profile=ServingProfile(), facts=facts))


@pytest.mark.parametrize("num_frames", range(5, 162, 4))
def test_a_length_that_is_told_can_be_asked_for(num_frames):
    assert frames_of(Fraction(seconds_of(num_frames, FACTS.film)), FACTS.film) == num_frames


@pytest.mark.parametrize("seconds", [1.1, 4.9, 0.1, 3.37])
def test_the_length_that_is_advised_is_accepted(seconds):
    with pytest.raises(FieldError) as caught:
        order(seconds=seconds)
    advised = str(caught.value).split("; ")[1].removesuffix(" works")
    assert abs(order(seconds=advised).num_frames - (1 + 16 * seconds)) <= 4


def test_lengths_that_are_not_on_offer_are_refused_with_those_that_are():
    film = FACTS.film.model_copy(update={"num_frames": (5, 17)})
    facts = FACTS.model_copy(update={"film": film})
    assert order(facts, seconds="0.25").num_frames == 5
    with pytest.raises(FieldError, match=r"seconds must be one of 0\.25, 1, got 0\.5"):
        order(facts, seconds="0.5")
