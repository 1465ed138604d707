"""What a job writes for a switch, as crossconnects."""

import pytest

from hwd_agents.switches.target import parse_target
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices import registry

SELECTOR = registry.find("osw").capabilities("osw", "1x4")
CROSS = registry.find("thorlabs-osw").capabilities("osw22", None)


def test_crossconnects_or_dark_are_read() -> None:
    both = "1A-2B,2A-1B"
    found = [parse_target("sel0", *one) for one in (("in-2", SELECTOR), (" dark ", SELECTOR), (both, CROSS))]
    assert [{*map(str, one)} for one in found] == [{"in-2"}, set(), {*both.split(",")}]


@pytest.mark.parametrize(
    ("capabilities", "text", "words"),
    [
        (SELECTOR, "in-9", "sel0: it has no 9; its ends go from in to 4"),
        (SELECTOR, "in-1,in-2", "in is named twice"),
        (SELECTOR, "in", "write it as 1A-2B"),
        (SELECTOR, "", "write it as 1A-2B"),
        (CROSS, "1A-1B,2A-1B", "1B is named twice"),
    ],
)
def test_what_cannot_be_is_refused_in_words(capabilities: Capabilities, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_target("sel0", text, capabilities)
