"""A restart is found by the uptime, or by what is left."""

from typing import Any

import pytest

from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.registry import find
from hwd_drivers.devices.restarts import Restart, Restarts, Sign

MATRIX = find("polatis-tl1").capabilities("polatis-6000", "8x8")
LATCHING = find("ttl").capabilities("latching-1x2", None)
ELEMENTS = find("osw").capabilities("osw", "4x6")
REST = tuple(one for element in ELEMENTS.elements for one in element.states[0])
AWAY = tuple(one for element in ELEMENTS.elements for one in element.states[1])
A, B, C = (Crossconnect.parse(text) for text in ("1A-2B", "3A-4B", "5A-6B"))


def found(restarts: Restarts | None = None, **more: Any) -> Restart | None:
    asked: dict[str, Any] = {"at_s": 1000.0, "last_reading_s": 990.0, "uptime_s": None, "capabilities": MATRIX}
    return (restarts or Restarts()).find(**{**asked, "before": (A, B), "now": (A, B), **more})


@pytest.mark.parametrize(
    ("more", "sign"),
    [
        ({}, None),
        ({"now": ()}, Sign.AT_REST),
        ({"now": (C,)}, Sign.AT_REST),  # another client was quick to make another
        ({"now": (A,)}, None),
        ({"now": (), "last_reading_s": None}, None),
        ({"now": (), "before": None}, None),
        ({"now": (), "before": ()}, None),
        ({"now": (), "uptime_s": 3600.0}, None),  # it was up all the time: another client emptied it
        ({"capabilities": ELEMENTS, "before": AWAY, "now": REST}, Sign.AT_REST),
        ({"capabilities": ELEMENTS, "before": REST, "now": AWAY}, None),
        ({"capabilities": ELEMENTS, "before": REST, "now": REST}, None),
        ({"capabilities": LATCHING, "before": (A,), "now": ()}, None),
    ],
)
def test_crossconnects_show_a_restart_where_a_unit_reports_no_uptime(more: dict[str, Any], sign: Sign | None) -> None:
    restart = found(**more)
    assert (None if restart is None else restart.sign) is sign


@pytest.mark.parametrize(
    ("uptime_s", "is_restart"), [(10_000.0, False), (9_960.0, False), (9_060.0, False), (0.0, True), (60.0, True)]
)
def test_uptime_shows_a_restart_with_certainty_to_its_minute(uptime_s: float, is_restart: bool) -> None:
    younger = Restarts()
    assert found(younger, at_s=1000.0, last_reading_s=None, uptime_s=100.0) is None
    assert found(younger, at_s=1960.0, last_reading_s=1000.0, uptime_s=950.0) is None, "about as much as has passed"
    restarts = Restarts()
    assert found(restarts, at_s=0.0, last_reading_s=None, uptime_s=9_000.0) is None
    restart = found(restarts, at_s=960.0, last_reading_s=600.0, uptime_s=uptime_s)
    assert (restart is not None) is is_restart
    if restart is not None:
        assert (restart.sign, restart.lost) == (Sign.UPTIME, ())
        assert str(restart).startswith(f"has restarted, up for {uptime_s:.0f} s by its own word, and carries")
