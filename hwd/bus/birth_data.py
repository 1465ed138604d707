"""The content of a birth, the MQTT message in which an agent describes its host, as the daemon reads it."""

from hwd.model.host import HostSpool
from hwd_agents.wire import Birth, SpoolNote, WallClock


def spool_of(birth: Birth) -> HostSpool:
    found = birth.inventory.spool or SpoolNote()
    return HostSpool(bytes=found.bytes, limit_bytes=found.limit_bytes, trouble=found.why or "")


def troubles(birth: Birth) -> dict[str, str]:
    """Find what has to be repaired, by subject, with its remedy: the spool, and ports without an interface."""
    found = {"spool": why} if (why := spool_of(birth).trouble) else {}
    for port, note in birth.ports.items():
        if not note.present and (link := note.sources.get("link")) is not None and link.why_not:
            found[port] = link.why_not
    return found


def selection_trouble(birth: Birth) -> str:
    """Why jobs on the host cannot set its own switches; empty where they can, or where it has none."""
    return "" if birth.inventory.selection is None else birth.inventory.selection.why_not


def wall_clock(birth: Birth) -> WallClock | None:
    """What synchronises the wall clock of the host; None where its agent does not report it. No order depends on it."""
    return None if birth.clocks is None else birth.clocks.wall
