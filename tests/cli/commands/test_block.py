"""`hwd block` and `hwd unblock`: their words, and what they say."""

import json

import msgspec
import pytest

from hwd.cli.commands.block import parse_words, show
from hwd.cli.output import Output
from hwd.model.answers import HeldEnds
from hwd_drivers.core.errors import ConfigError


def test_ends_are_sent_by_their_switch() -> None:
    words = ["ocs1:3A,4A..6A", "ocs2:1B", "ocs1:7B"]
    assert parse_words(words) == {"ocs1": ["3A", "4A..6A", "7B"], "ocs2": ["1B"]}


@pytest.mark.parametrize("word", ["ocs1", "3A", ":3A", "ocs1:", "ocs1:3A,", "ocs1:,3A", ""])
def test_a_word_of_another_form_is_bad_input(word: str) -> None:
    with pytest.raises(ConfigError, match="write the switch and its ends, such as ocs1:3A or"):
        parse_words(["ocs1:1A", word])


DONE = [
    {"switch": "ocs1", "ends": ["3A", "4A"], "to": "force-blocked", "blocked": ["1A", "3A", "4A"]},
    {"switch": "ocs2", "ends": ["1B"], "to": "normal", "blocked": []},
]


def test_what_is_held_dark_since_is_said_for_each_switch(capsys: pytest.CaptureFixture[str]) -> None:
    done = msgspec.convert(DONE, list[HeldEnds])
    show(Output(json=False), done)
    said = capsys.readouterr().out
    assert said == "ocs1: 3A, 4A force-blocked; held dark now: 1A, 3A, 4A\nocs2: 1B normal; held dark now: none\n"
    show(Output(json=True), done)
    assert json.loads(capsys.readouterr().out) == DONE
