"""Version skew: whether daemon and agent understand each other, which they do at most one minor version apart."""

from typing import Final

MINORS_APART_MOST: Final = 1
"""Each version reads the messages of the version before, and ignores unknown fields."""


def skew(daemon: str, agent: str) -> str:
    """Why the two versions do not fit, and the remedy; empty where they fit."""
    ours, theirs = _parts(daemon), _parts(agent)
    if ours is None or theirs is None:
        strange = agent if theirs is None else daemon
        return f"version {strange!r} is none that can be compared. Roll out the agent of this hwd: hwd agent upgrade"
    if ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= MINORS_APART_MOST:
        return ""
    remedy = "Upgrade the agent: hwd agent upgrade" if theirs < ours else "Upgrade the daemon"
    return f"agent {agent} and daemon {daemon} are more than one minor version apart. {remedy}"


def _parts(version: str) -> tuple[int, int] | None:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    return int(major), int(minor)
