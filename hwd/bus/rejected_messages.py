"""RejectedMessages: counts malformed messages and reports them at a limited rate, to protect the records."""

from collections.abc import Collection
from dataclasses import dataclass

from hwd.bus.host_agent import Emit
from hwd.model.host import HostGarbage
from hwd_agents.wire import Message
from hwd_drivers.core.errors import ProtocolError

EVERY_NS = 1_000_000_000
"""One report a host in this time, with the number of messages since the one before."""
STRANGERS_MOST = 8
"""Names of hosts that do not exist are invented by the sender: more than this many are counted together."""
TEXT_MOST = 200
OTHERS = "(others)"


@dataclass(slots=True)
class _Tally:
    reported_ns: int
    topic: str = ""
    why: str = ""
    count: int = 0


def wrong_topic(message: Message) -> ProtocolError:
    """The error for a message that is valid on another topic only."""
    return ProtocolError(f"a {type(message).__name__} does not belong on this topic")


class RejectedMessages:
    """Emits `host.garbage` at once for the first of a host, then at most once in `EVERY_NS`."""

    def __init__(self, emit: Emit, hosts: Collection[str]) -> None:
        self._emit = emit
        self._hosts = frozenset(hosts)
        self._strangers: set[str] = set()
        self._tallies: dict[str, _Tally] = {}

    def note(self, host: str, topic: str, why: str, now_ns: int) -> None:
        host = _shorten(host)
        if host not in self._hosts and host not in self._strangers:
            if len(self._strangers) < STRANGERS_MOST:
                self._strangers.add(host)
            else:
                host = OTHERS
        tally = self._tallies.setdefault(host, _Tally(now_ns - EVERY_NS))
        tally.topic, tally.why = _shorten(topic), _shorten(why)
        tally.count += 1
        self._report_due(host, tally, now_ns)

    def flush(self, now_ns: int) -> None:
        for host, tally in self._tallies.items():
            self._report_due(host, tally, now_ns)

    def _report_due(self, host: str, tally: _Tally, now_ns: int) -> None:
        if tally.count and now_ns - tally.reported_ns >= EVERY_NS:
            count, tally.count, tally.reported_ns = tally.count, 0, now_ns
            self._emit(HostGarbage(host=host, topic=tally.topic, why=tally.why, count=count))


def _shorten(text: str) -> str:
    return text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}... ({len(text)} characters)"
