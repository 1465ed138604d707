import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.expression import Value, evaluate, substitute
from hwd_drivers.kit.errors import ConfigError

PARAMETERS: dict[str, Value] = {"n": 10, "s": 1.5, "host": "h0", "live": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ n }}", 10),
        ("{{n*2+1}}", 21),
        ("{{ (n - 1) // 2 }}", 4),
        ("{{ -s }}", -1.5),
        ("{{ host }}", "h0"),
        ("{{ live }}", True),
        ("{{ host }},h{{ n }}", "h0,h10"),
        ("is {{ live }}", "is true"),
        ("nothing", "nothing"),
    ],
)
def test_hole_takes_the_value(text: str, value: Value) -> None:
    assert substitute(text, PARAMETERS) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ m }}", "no parameter 'm'"),
        ("{{ n", "without its"),
        ("{{ }}", "is no expression"),
        ("{{ n // 0 }}", "divides by zero"),
        ("{{ host + 1 }}", "'h0' is no number"),
        ("{{ live * 2 }}", "True is no number"),
        ("{{ n.real }}", "only names, numbers"),
        ("{{ __import__('os') }}", "only names, numbers"),
        ("{{ [n for n in n] }}", "only names, numbers"),
        ("{{ n ** 9 }}", "only names, numbers"),
        ("{{ 'a' * 9 }}", "only names, numbers"),
        ("{{ 999999999 * 999999999 }}", "beyond 1e\\+12"),
        ("{{ 1e999 }}", "beyond 1e\\+12"),
        ("{{ " + "(" * 300 + " }}", "over the 200"),
        ("{{ " + "(" * 150 + "1" + ")" * 40 + " }}", "is no expression"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        substitute(text, PARAMETERS)


@given(st.text(alphabet="ns01+-*/() .'[]\x00\n_lambda:", max_size=60))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        value = evaluate(text, PARAMETERS)
    except ConfigError:
        return
    assert isinstance(value, str | int | float | bool)
