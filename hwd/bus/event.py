"""An event of an agent as the data of its document: on the daemon's clock."""

import msgspec

from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Event, Selected
from hwd_drivers.core.documents import Json

POLLED = frozenset({"light", "dark", "rdma"})
"""Events found by looking: they lie anywhere between two looks. All others are notices, which come just after what they
tell."""
TOLD_BY = "verbs"
"""The source of `rdma` whose device tells of itself, so that it is looked at just after."""


def event_data(host: str, boot: str, event: Event, alignment: Alignment, *, past: bool) -> dict[str, Json]:
    """All of `host.event`.

    `past`: another boot of its agent has been born since; it says how things were then, and nothing of now.
    """
    latest_ns, latest_error_ns = earliest_ns, earliest_error_ns = alignment.to_daemon(event.at_ns)
    is_polled = event.kind in POLLED and event.source != TOLD_BY
    one_sided = event.data.get("one_sided") is True  # from the start of the host's clock: no middle means anything
    if event.earliest_ns != event.at_ns:
        earliest_ns, earliest_error_ns = alignment.to_daemon(event.earliest_ns)
    data: dict[str, Json] = {
        "host": host,
        "boot": boot,
        "seq": event.seq,
        "type": event.kind,
        "port": event.port,
        "earliest_ns": earliest_ns - earliest_error_ns,
        "latest_ns": latest_ns + latest_error_ns,
        "best_ns": (earliest_ns + latest_ns) // 2 if is_polled and not one_sided else latest_ns,
        "agent_ns": event.at_ns,
        "origin": event.origin,
        "source": event.source,
        "sampling_ns": event.sampling_ns,
        "past": past,
        "data": event.data,
    }
    if event.kind == "selection":
        data["stamps"] = stamps_of(event, alignment)
    return data


def stamps_of(event: Event, alignment: Alignment) -> dict[str, Json]:
    """The times of a selection; empty where its data makes no sense.

    {requested_ns, answered_ns, error_ns, switches: {switch: {commanded_ns, acknowledged_ns}}}
    """
    try:
        done = msgspec.convert(event.data, Selected)
    except msgspec.ValidationError:
        return {}

    def ours(at_ns: int | None) -> int | None:
        return None if at_ns is None else alignment.to_daemon(at_ns)[0]

    return {
        "requested_ns": ours(done.requested_ns),
        "answered_ns": ours(done.answered_ns),
        "error_ns": alignment.to_daemon(done.requested_ns)[1],
        "switches": {
            name: {"commanded_ns": ours(one.commanded_ns), "acknowledged_ns": ours(one.acknowledged_ns)}
            for name, one in done.switches.items()
        },
    }
