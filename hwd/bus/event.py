"""host_event: an event of an agent as a document, with its times converted to the daemon's clock."""

from msgspec import UNSET

from hwd.model.host import HostEvent
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Event, Selected
from hwd_agents.wire.events import LightData
from hwd_drivers.core.documents import Json

POLLED = frozenset({"light", "dark", "rdma"})
"""Events that are found by polling: they lie anywhere between two polls. All others are notices, which come just after
the change."""
NOTICE_SOURCE = "verbs"
"""The source of `rdma` that reads the state just after a notice of the device."""


def host_event(host: str, boot: str, event: Event, alignment: Alignment, *, past: bool) -> HostEvent:
    """`past`: another boot is the current one, so that the event says nothing of the present state."""
    latest_ns, latest_error_ns = earliest_ns, earliest_error_ns = alignment.to_daemon(event.at_ns)
    is_polled = event.kind in POLLED and event.source != NOTICE_SOURCE
    one_sided = isinstance(event.data, LightData) and event.data.one_sided is True  # else a middle makes sense
    if event.earliest_ns != event.at_ns:
        earliest_ns, earliest_error_ns = alignment.to_daemon(event.earliest_ns)
    return HostEvent(
        host=host,
        boot=boot,
        seq=event.seq,
        type=event.kind,
        port=event.port,
        earliest_ns=earliest_ns - earliest_error_ns,
        latest_ns=latest_ns + latest_error_ns,
        best_ns=(earliest_ns + latest_ns) // 2 if is_polled and not one_sided else latest_ns,
        agent_ns=event.at_ns,
        origin=event.origin,
        source=event.source,
        sampling_ns=event.sampling_ns,
        past=past,
        data=event.data,
        stamps=stamps_of(event, alignment) if event.kind == "selection" else UNSET,
    )


def stamps_of(event: Event, alignment: Alignment) -> dict[str, Json]:
    """The times of a selection on the daemon's clock.

    {requested_ns, answered_ns, error_ns, switches: {switch: {commanded_ns, acknowledged_ns}}}
    """
    done = event.data
    if not isinstance(done, Selected):
        return {}

    def daemon_ns(at_ns: int | None) -> int | None:
        return None if at_ns is None else alignment.to_daemon(at_ns)[0]

    return {
        "requested_ns": daemon_ns(done.requested_ns),
        "answered_ns": daemon_ns(done.answered_ns),
        "error_ns": alignment.to_daemon(done.requested_ns)[1],
        "switches": {
            name: {"commanded_ns": daemon_ns(one.commanded_ns), "acknowledged_ns": daemon_ns(one.acknowledged_ns)}
            for name, one in done.switches.items()
        },
    }
