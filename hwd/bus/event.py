"""An event of an agent as the data of its document: on the daemon's clock."""

from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Event
from hwd_drivers.kit.documents import Json

POLLED = frozenset({"light", "dark", "rdma"})
"""Events found by looking: they lie anywhere between two looks. All others are notices, which come just after what they tell."""


def event_data(host: str, boot: str, event: Event, alignment: Alignment) -> dict[str, Json]:
    """All of `host.event`."""
    latest_ns, latest_error_ns = earliest_ns, earliest_error_ns = alignment.to_daemon(event.at_ns)
    one_sided = event.data.get("one_sided") is True  # from the start of the host's clock: no middle means anything
    if event.earliest_ns != event.at_ns:
        earliest_ns, earliest_error_ns = alignment.to_daemon(event.earliest_ns)
    return {
        "host": host,
        "boot": boot,
        "seq": event.seq,
        "type": event.kind,
        "port": event.port,
        "earliest_ns": earliest_ns - earliest_error_ns,
        "latest_ns": latest_ns + latest_error_ns,
        "best_ns": (earliest_ns + latest_ns) // 2 if event.kind in POLLED and not one_sided else latest_ns,
        "agent_ns": event.at_ns,
        "origin": event.origin,
        "source": event.source,
        "sampling_ns": event.sampling_ns,
        "data": event.data,
    }
