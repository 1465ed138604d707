"""Durations, as every option of the command line takes them."""

from typing import Any

import pytest

from docs.generate.command_line import leaves
from hwd_drivers.core.errors import ConfigError

WORDS = ("--for", "--in", "--heartbeat", "--ready-within", "--confirm-within", "--drain-within")


def durations() -> list[tuple[str, Any]]:
    """Options of all commands whose value is a length of time: by their names, or since their number is in seconds."""
    return [
        (f"{name} {option.opts[0]}", option)
        for name, command in leaves()
        for option in command.params
        if option.param_type_name == "option"
        and (option.opts[0] in WORDS or option.opts[0].endswith("-within") or option.metavar in ("S", "DURATION"))
    ]


def test_the_options_that_are_durations_are_found() -> None:
    assert {option.opts[0] for _, option in durations()} == set(WORDS)


@pytest.mark.parametrize(("name", "option"), durations(), ids=[name for name, _ in durations()])
def test_option_takes_seconds_and_words_and_says_so(name: str, option: Any) -> None:
    convert = option.type.convert
    assert [convert(text, option, None) for text in ("300", "300s", "5m", "0.5h")] == [300.0, 300.0, 300.0, 1800.0]
    assert option.metavar == "DURATION"
    assert "Seconds, or 90s, 15m, 1.5h." in option.help
    for text in ("5x", "", "-1"):
        with pytest.raises(ConfigError, match=f"^{option.opts[0]} {text}: "):
            convert(text, option, None)
