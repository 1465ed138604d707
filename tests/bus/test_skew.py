"""How far apart the versions of daemon and agent may be."""

from hwd.bus.skew import skew

APART = {
    ("0.3.0", "0.1.9"): "agent",
    ("0.1.0", "0.3.0"): "daemon",
    ("1.0.0", "0.9.0"): "agent",
    ("0.9.0", "1.0.0"): "daemon",
}
REMEDY = {"agent": "Upgrade the agent: hwd agent upgrade", "daemon": "Upgrade the daemon"}


def test_more_than_one_minor_version_apart_is_named_with_the_remedy() -> None:
    for (daemon, agent), older in APART.items():
        apart = f"agent {agent} and daemon {daemon} are more than one minor version apart. {REMEDY[older]}"
        assert skew(daemon, agent) == apart


def test_one_minor_version_apart_is_near_enough_and_what_is_no_version_is_named() -> None:
    for daemon, agent in (("0.1.0", "0.1.7"), ("0.1.0", "0.2.0"), ("0.2.3", "0.1.0"), ("0.1.0", "0.0.9")):
        assert skew(daemon, agent) == ""
    for agent in ("", "new", "1", "1.x", "²³.1"):
        assert repr(agent) in skew("0.1.0", agent)
