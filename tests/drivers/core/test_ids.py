"""Ids are unique, and repeat with the same seed."""

import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.ids import Draws, Ids, RandomIds, SeededIds


@pytest.mark.parametrize("ids", [RandomIds(), SeededIds(1)], ids=["random", "seeded"])
def test_ids_have_their_form_and_differ(ids: Ids) -> None:
    made = [ids.uuid() for _ in range(50)]
    assert len(set(made)) == 50
    assert all(uuid.UUID(text).version == 4 and str(uuid.UUID(text)) == text for text in made)
    tokens = [ids.token(length=12) for _ in range(50)]
    assert len(set(tokens)) == 50
    assert all(len(token) == 12 and token.isascii() and token.isalnum() and token == token.lower() for token in tokens)


@given(st.integers())
def test_same_seed_makes_the_same_ids(seed: int) -> None:
    one, two = SeededIds(seed), SeededIds(seed)
    assert [one.uuid(), one.token(length=6), one.uuid()] == [two.uuid(), two.token(length=6), two.uuid()]
    assert SeededIds(seed).uuid() != SeededIds(seed + 1).uuid()


@given(seed=st.integers(), noise=st.integers(0, 50))
def test_a_stream_does_not_feel_the_draws_of_another(seed: int, noise: int) -> None:
    quiet, noisy = Draws(seed), Draws(seed)
    for _ in range(noise):
        noisy.stream("jitter").random()
    assert quiet.stream("twin ocs1").random() == noisy.stream("twin ocs1").random()


def test_streams_differ_by_name_and_seed_and_go_on_when_asked_for_again_also_in_another_process() -> None:
    assert len({Draws(seed).stream(name).random() for seed in range(5) for name in ("a", "b", "1:a")}) == 15
    draws = Draws(3)
    first = draws.stream("a").random()
    assert draws.stream("a").random() != first
    assert Draws(3).stream("a").random() == first
    draws = Draws(None)
    assert Draws(None).seed != draws.seed
    assert Draws(draws.seed).stream("x").random() == draws.stream("x").random()
    code = "from hwd_drivers.core.ids import Draws; print(Draws(7).stream('x').random())"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert float(shown.stdout) == Draws(7).stream("x").random()
