"""How far apart the versions of daemon and agent may be."""

import pytest

from hwd.bus.skew import skew


@pytest.mark.parametrize(
    ("daemon", "agent", "remedy"),
    [
        ("0.3.0", "0.1.9", "Upgrade the agent: hwd agent upgrade"),
        ("0.1.0", "0.3.0", "Upgrade the daemon"),
        ("1.0.0", "0.9.0", "Upgrade the agent: hwd agent upgrade"),
        ("0.9.0", "1.0.0", "Upgrade the daemon"),
    ],
)
def test_more_than_one_minor_version_apart_is_named_with_the_remedy(daemon: str, agent: str, remedy: str) -> None:
    assert skew(daemon, agent) == f"agent {agent} and daemon {daemon} are more than one minor version apart. {remedy}"


def test_one_minor_version_apart_is_near_enough_and_what_is_no_version_is_named() -> None:
    for daemon, agent in (("0.1.0", "0.1.7"), ("0.1.0", "0.2.0"), ("0.2.3", "0.1.0"), ("0.1.0", "0.0.9")):
        assert skew(daemon, agent) == ""
    for agent in ("", "new", "1", "1.x", "²³.1"):
        assert repr(agent) in skew("0.1.0", agent)
