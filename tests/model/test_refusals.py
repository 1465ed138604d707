"""All that is said of values that cannot be: `refusals.txt` has the values, and each finding under its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.model.action import parse_actions, parse_settings
from hwd.model.fault import decode_fault, parse_fault
from hwd.model.fault_check import check_fault
from hwd.model.link import Link
from hwd.model.ssh import SshPlace
from hwd.model.testbed import Setting, Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError

from ..answers import check_answers


def test_every_wrong_value_is_refused_with_the_right_form(testbed: Testbed) -> None:
    def of(read: Callable[[str], object]) -> Callable[[str], str]:
        def refused(text: str) -> str:
            with pytest.raises((ConfigError, RefusedError)) as refusal:
                read(text)
            return str(refusal.value)

        return refused

    assert testbed.host_actions == (Setting.MTU,)
    check_answers(
        Path(__file__).with_name("refusals.txt"),
        {
            "settings of a host step": of(lambda text: parse_settings(json.loads(text))),
            "host step": of(lambda text: parse_actions(json.loads(text), testbed)),
            "fault": of(lambda text: parse_fault(json.loads(text))),
            "fault in the testbed": of(lambda text: check_fault(parse_fault(json.loads(text)), testbed)),
            "line of a fault": of(lambda text: decode_fault(text.encode())),
            "link": of(Link.parse),
            "SSH place": of(SshPlace.parse),
        },
    )
