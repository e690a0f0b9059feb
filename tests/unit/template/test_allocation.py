"""How a budget is shared among the files of a template."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import RequestError
from intonaco.template.allocation import Cut, choose_prefixes, convex_hull


@st.composite
def files(draw) -> list[list[Cut]]:
    made = []
    for _ in range(draw(st.integers(1, 4))):
        num_bytes, error, cuts = draw(st.integers(0, 50)), 1000.0, []
        for _ in range(draw(st.integers(1, 8))):
            cuts.append(Cut(num_bytes=num_bytes, error=error))
            num_bytes += draw(st.integers(1, 100))
            error *= draw(st.floats(0.1, 1.0))
        made.append(cuts)
    return made


def _error(made, chosen) -> float:
    return sum(
        next(cut.error for cut in cuts if cut.num_bytes == length)
        for cuts, length in zip(made, chosen, strict=True)
    )


@given(files(), st.integers(0, 1500))
def test_prefixes_are_cuts_and_keep_the_budget(made, extra):
    budget = sum(cuts[0].num_bytes for cuts in made) + extra
    chosen = choose_prefixes(made, budget_bytes=budget)
    assert sum(chosen) <= budget
    for cuts, length in zip(made, chosen, strict=True):
        assert length in [cut.num_bytes for cut in cuts]


@given(files())
def test_a_budget_for_everything_takes_everything(made):
    budget = sum(cuts[-1].num_bytes for cuts in made)
    assert choose_prefixes(made, budget_bytes=budget) == tuple(cuts[-1].num_bytes for cuts in made)


@given(files())
def test_the_hull_keeps_both_ends_and_buys_ever_less(made):
    for cuts in made:
        hull = convex_hull(cuts)
        slopes = [
            (low.error - high.error) / (high.num_bytes - low.num_bytes)
            for low, high in pairwise(hull)
        ]
        assert (hull[0], hull[-1]) == (cuts[0], cuts[-1])
        assert all(a > b for a, b in pairwise(slopes))


def test_the_file_in_which_a_byte_buys_most_comes_first():
    steep = [Cut(num_bytes=10, error=100), Cut(num_bytes=20, error=10)]
    flat = [Cut(num_bytes=10, error=100), Cut(num_bytes=20, error=90)]
    assert choose_prefixes([flat, steep], budget_bytes=30) == (10, 20)


def test_what_is_left_over_is_spent_where_something_fits():
    long = [Cut(num_bytes=10, error=100), Cut(num_bytes=1000, error=0)]
    short = [Cut(num_bytes=10, error=100), Cut(num_bytes=20, error=99.9)]
    assert choose_prefixes([long, short], budget_bytes=100) == (10, 20)


def test_a_budget_below_the_floors_is_refused_with_the_least_that_works():
    with pytest.raises(RequestError, match=r"at least 0\.002 MB"):
        choose_prefixes([[Cut(num_bytes=2000, error=1)]], budget_bytes=1000)
