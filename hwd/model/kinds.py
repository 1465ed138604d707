"""The kinds of documents, and the fields that each must have. `check` holds an emitter to it.

Times ending in `_ns` are on the daemon's monotonic clock unless the name says `agent_` or `wall_`.
"""

from collections.abc import Mapping

from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError

KINDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(fields.split())
    for kind, fields in {
        # the daemon itself
        "daemon.started": "version pid testbed data_dir",
        "daemon.stopped": "reason",
        "daemon.lag": "seconds",  # the longest that the event loop kept a timer waiting since the last of these
        "limit.reached": "limit count detail",  # limit: of hwd.model.limit; count: since the last of it; detail: of the last time
        "journal.open": "reconfiguration run what why held",  # it was cut off and cannot be undone yet; daemon.recovered or journal.given-up ends that; held: an operator decides
        "journal.given-up": "reconfiguration run what why by left",  # an operator leaves it as it is; why: what kept it open; left: what its switches reported last
        "journal.refused": "reconfiguration outcome why",  # it has ended so, and the journal did not take that; journal.written ends that
        "journal.written": "reconfiguration outcome",
        "journal.damaged": "why aside held",  # aside: the file that keeps what it was; held: what nobody brings back until an operator gives it up
        "daemon.recovered": "reconfiguration run outcome why",  # finished or rolled back what the journal left open
        "bus.up": "address",
        "bus.down": "address cause",
        # switches; crossconnects is a list of {id, state}
        "switch.up": "switch vendor model serial firmware down_s",
        "switch.down": "switch cause",
        "switch.restarted": "switch sign lost uptime_s unheard_s",  # between two sessions; sign: uptime (by its own word), at-rest (it carries nothing of what it did: likely)
        "switch.read": "switch crossconnects added removed ours",  # after a change, ours: we had asked for it, or a restart of the switch explains it
        "switch.command": "switch verb outcome seconds code text",  # outcome: done, denied, lost, timeout, garbled
        "switch.power": "switch power_dbm",  # {end: dBm or None where dark}
        "switch.overrun": "switch reconfiguration lost window_s",  # lost: crossconnects that another client made between our read and our write, and that our write took
        "switch.override": "switch ends to by",  # to: force-blocked, normal; by: who asked us, or that we did not ask for it
        "switch.unknown": "switch cause",  # of a switch that a host drives: nobody can tell how it stands now
        "switch.refused": "switch host why",  # a host claims a switch that is not its own
        # hosts and their agents
        "host.birth": "host boot version ports",  # ports: {name: {interface, present, carrier, rdma, sources: {name: {sees, origin}}}}
        "host.up": "host boot",
        "host.down": "host boot cause",
        "host.event": "host boot seq type port earliest_ns best_ns latest_ns agent_ns origin source data",  # past (older records lack it): of a boot of its agent that is over; it came late, and says nothing of now
        "host.selection": "host boot selection outcome why seconds requested_ns answered_ns error_ns switches ports",  # a host has set its own switches; switches: {switch: {epoch, epoch_in_force, before, now, commanded_ns, acknowledged_ns, ...}}
        "host.lost": "host boot count why",  # events that the spool could not hold, or flaps that nobody saw
        "host.garbage": "host topic why count",  # count: since the last of these; topic and why are of the last
        "host.trouble": "host task why",  # what the daemon does for this host failed by a bug of its own; why is empty where it works again
        "clock.aligned": "host boot offset_ns drift_ppm error_ns round_trip_ns agent_ns samples",
        "clock.stepped": "host boot by_ns error_ns earliest_ns latest_ns",  # a host's clock was set, or stood still, between two times
        # leases
        "lease.taken": "lease holder ports expires_wall_ns",
        "lease.renewed": "lease holder ports expires_wall_ns",
        "lease.released": "lease holder ports why",  # why: released, expired, kicked
        "lease.delegated": "lease kind switch host holder epoch boot",  # kind: delegated; the host alone sets the switch, under this epoch
        "lease.taken-back": "lease kind switch host holder epoch boot why by",
        # reconfigurations; with source: local, host and epochs where a host has set its own switches
        "plan.made": "plan what hash",  # plan: the whole plan as JSON
        "reconfiguration.started": "reconfiguration run hash what sweep settings links moves",  # links: [{link, kept, crossconnects}]; moves: [{switch, remove, add}]
        "reconfiguration.commanded": "reconfiguration switch commanded_ns acknowledged_ns commands window_s",  # window_s: from the end of our last read to the first byte
        "reconfiguration.state": "reconfiguration state",  # journaled, driving, read-back, waiting, awaiting-confirm, rolling-back
        "reconfiguration.ended": "reconfiguration run outcome why seconds",  # confirmed, rolled-back, failed, aborted; what
        "timeline": "reconfiguration run what sweep settings commands ends links breaches explained",  # sweep: {variable: value} of its run; settings: {NIC port: {setting: value}} that runs have in force; explained: falls that a run made itself by setting a port
        # runs
        "run.started": "run playbook parameters steps virtual_time",
        "run.step": "run step what state done total expected_s",  # state: started, done, failed; sweep: {variable: value}; branch
        "run.paused": "run by branch",  # this branch stands at the border of two steps
        "run.resumed": "run branch",
        # the whole of hwd.model.run.RunStatus, at every change of it
        "run.state": "run playbook state step steps what stage fault_class why by rolled_back safe_state due_wall_ns"
        " queued_wall_ns started_wall_ns ended_wall_ns expected_s waits_for",
        "run.note": "run text",
        "run.host": "run host port action before after",  # action: mtu, autoneg, ... with value; or put-back, with setting; seconds: what it took
        "run.fault": "run fault",  # fault: what a twin was told; {"fault": "clear"} when the run ended
        "run.assert": "run expression held values",
        "run.ended": "run outcome why safe_state",  # succeeded, failed, aborted, crashed
    }.items()
}


def check(document: Document) -> None:
    """Raises BugError where the kind is unknown or a field is missing; more fields than stated are welcome."""
    fields = KINDS.get(document.kind)
    if fields is None:
        raise BugError(f"document {document.kind!r} is not a kind of hwd.model.kinds")
    if not fields <= document.data.keys():
        raise BugError(f"document {document.kind} lacks {', '.join(sorted(fields - document.data.keys()))}")
