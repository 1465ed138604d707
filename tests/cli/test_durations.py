"""Durations, as every option of the command line takes them."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from hwd.cli.command_table import make_program
from hwd.cli.commands.faults import parse_words
from hwd.model.fault import ClockStep, Reboot
from hwd_drivers.core.errors import ConfigError

WORDS = ("--for", "--in", "--heartbeat", "--ready-within", "--confirm-within", "--drain-within")


def leaves(group: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group or get_command(make_program()), "commands", {}).items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


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


def test_fault_takes_a_duration_for_its_seconds() -> None:
    assert parse_words(["ocs1", "reboot", "seconds=1m"], {"h0"}) == Reboot(switch="ocs1", seconds=60.0)
    assert parse_words(["h0", "clock-step", "seconds=-1.5m"], {"h0"}) == ClockStep(host="h0", seconds=-90.0)


def test_fault_with_a_wrong_duration_names_its_field() -> None:
    with pytest.raises(ConfigError, match=r"reboot seconds 1xm: write a duration as 90 \(seconds\), 90s, 15m or 1.5h"):
        parse_words(["ocs1", "reboot", "seconds=1xm"], set())
