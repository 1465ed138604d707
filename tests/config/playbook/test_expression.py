import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.playbook.expression import Expression, UnknownError, Value, evaluate, fill_text, names_in, substitute
from hwd_drivers.core.errors import ConfigError

PARAMETERS: dict[str, Value] = {"n": 10, "s": 1.5, "host": "h0", "live": True, "sizes": (1, 4, 16)}


def test_an_unmeasured_value_is_an_error_with_its_name() -> None:
    expression = Expression.parse("n > 3 or last.turnaround.max_s < 2")
    assert expression.names == ("n", "last.turnaround.max_s")
    scope: dict[str, Value | None] = {"n": 10, "last.turnaround.max_s": None}
    assert expression.value(scope) is True
    with pytest.raises(UnknownError, match=r"last\.turnaround\.max_s is unknown"):
        expression.value(scope | {"n": 1})


def test_trying_out_looks_at_every_part_and_names_of_a_text_are_those_of_its_holes() -> None:
    assert Expression.parse("n / (n - 10) > 2").try_out(PARAMETERS) is False
    for text in ("live or host", "n if live else missing", "1 < 0 < host"):
        with pytest.raises(ConfigError):
            Expression.parse(text).try_out(PARAMETERS)
    assert names_in("ocs1:{{ first }}A..{{ first + n }}A {{ 1 + }}") == {"first", "n"}


@given(st.text(alphabet="ns01+-*/%<=!() .,'[]\x00\n_lambdaorndtifes:", max_size=60))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        value = evaluate(text, PARAMETERS)
    except ConfigError:
        return
    assert isinstance(value, str | int | float | bool | tuple)


@pytest.mark.parametrize(
    "text",
    ["{" * 40_000, "{{" * 400_000, "{{ n " * 100_000, "}" * 400_000, "{{ n }}" * 100_000, "{{ " + " " * 400_000 + "}}"],
)
def test_holes_of_a_hostile_text_are_refused_at_once(text: str) -> None:
    """Some braces more took seconds; the length is looked at before anything else."""
    started_s = time.process_time()
    with pytest.raises(ConfigError, match="is over the 10000 that one"):
        substitute(text, PARAMETERS)
    with pytest.raises(ConfigError, match="is over the 10000 that one"):
        fill_text(text, lambda expression: expression.value(PARAMETERS))
    assert names_in(text) == frozenset()
    assert time.process_time() - started_s < 0.5
