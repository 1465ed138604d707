"""The kinds of documents, and the fields that each must have. `check` verifies a document.

Times ending in `_ns` are on the daemon's monotonic clock unless the name says `agent_` or `wall_`. The comment above a
kind is its remark in the reference page.
"""

from collections.abc import Mapping

from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError

KINDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(fields.split())
    for kind, fields in {
        # --- the daemon
        "daemon.started": "version pid testbed data_dir",
        "daemon.stopped": "reason",
        "daemon.lag": "seconds",  # the longest delay of a timer in the event loop since the previous document
        # limit: of hwd.model.limit; count: since the previous document; detail: of the latest time
        "limit.reached": "limit count detail",
        # interrupted, and cannot be undone yet; daemon.recovered or journal.given-up ends that; held: an operator
        # decides
        "journal.open": "reconfiguration run what why held",
        # an operator leaves it as it is; why: what kept it open; left: the last reports of its switches
        "journal.given-up": "reconfiguration run what why by left",
        # it has ended so, and the journal could not be written; journal.written ends that
        "journal.refused": "reconfiguration outcome why",
        "journal.written": "reconfiguration outcome",
        # aside: the file to which the damaged one was moved; held: changes that stay until an operator gives them up
        "journal.damaged": "why aside held",
        "daemon.recovered": "reconfiguration run outcome why",  # finished or rolled back what the journal left open
        "bus.up": "address",
        "bus.down": "address cause",
        # --- switches; crossconnects is a list of {id, state}
        "switch.up": "switch vendor model serial firmware down_s",
        "switch.down": "switch cause",
        # between two sessions; sign: uptime (the switch reports it), at-rest (it has none of its crossconnects: likely)
        "switch.restarted": "switch sign lost uptime_s unheard_s",
        # after a change; ours: we had asked for it, or a restart of the switch explains it
        "switch.read": "switch crossconnects added removed ours",
        "switch.command": "switch verb outcome seconds code text",  # outcome: done, denied, lost, timeout, garbled
        "switch.power": "switch power_dbm",  # {end: dBm or None where dark}
        # lost: crossconnects that another client made between our read and our write, and that our write removed
        "switch.overrun": "switch reconfiguration lost window_s",
        # to: force-blocked, normal; by: who asked us, or that we did not ask for it
        "switch.override": "switch ends to by",
        "switch.unknown": "switch cause",  # of a switch that a host drives: its state is unknown now
        "switch.refused": "switch host why",  # a host claims a switch that it does not own
        # --- hosts and their agents
        # ports: {name: {interface, present, carrier, rdma, sources: {name: {sees, origin}}}}
        "host.birth": "host boot version ports",
        "host.up": "host boot",
        "host.down": "host boot cause",
        # past (older records lack it): the event is of an earlier boot of the agent and arrived late; it says nothing
        # of the present
        "host.event": "host boot seq type port earliest_ns best_ns latest_ns agent_ns origin source data",
        # a host has set its own switches; switches: {switch: {epoch, epoch_in_force, before, now, commanded_ns,
        # acknowledged_ns, ...}}
        "host.selection": "host boot selection outcome why seconds requested_ns answered_ns error_ns switches ports",
        "host.lost": "host boot count why",  # events that the spool could not hold, or flaps that were not observed
        "host.garbage": "host topic why count",  # count: since the previous document; topic and why are of the latest
        # a task of the daemon for this host failed by a bug; why is empty where it works again
        "host.trouble": "host task why",
        "clock.aligned": "host boot offset_ns drift_ppm error_ns round_trip_ns agent_ns samples",
        # a host's clock was set, or stopped, between two times
        "clock.stepped": "host boot by_ns error_ns earliest_ns latest_ns",
        # --- leases
        "lease.taken": "lease holder ports expires_wall_ns",
        "lease.renewed": "lease holder ports expires_wall_ns",
        "lease.released": "lease holder ports why",  # why: released, expired, kicked
        # kind: delegated; the host alone sets the switch, under this epoch
        "lease.delegated": "lease kind switch host holder epoch boot",
        "lease.taken-back": "lease kind switch host holder epoch boot why by",
        # --- reconfigurations; with source: local, host and epochs where a host has set its own switches
        "plan.made": "plan what hash",  # plan: the whole plan as JSON
        # links is a list of {link, kept, crossconnects}, moves a list of {switch, remove, add}
        "reconfiguration.started": "reconfiguration run hash what sweep settings links moves",
        # window_s: from the end of our last read to the first byte
        "reconfiguration.commanded": "reconfiguration switch commanded_ns acknowledged_ns commands window_s",
        # journaled, driving, read-back, waiting, awaiting-confirm, rolling-back
        "reconfiguration.state": "reconfiguration state",
        # confirmed, rolled-back, failed, aborted; what
        "reconfiguration.ended": "reconfiguration run outcome why seconds",
        # sweep: {variable: value} of its run; settings: {NIC port: {setting: value}} that runs have in force;
        # explained: falls that a run caused by setting a port
        "timeline": "reconfiguration run what sweep settings commands ends links breaches explained",
        # --- runs
        "run.started": "run playbook parameters steps virtual_time",
        # state: started, done, failed; sweep: {variable: value}; branch
        "run.step": "run step what state done total expected_s",
        "run.paused": "run by branch",  # this branch is paused between two steps
        "run.resumed": "run branch",
        # all fields of hwd.model.run.RunStatus, at every change of it
        "run.state": "run playbook state step steps what stage fault_class why by rolled_back safe_state due_wall_ns"
        " queued_wall_ns started_wall_ns ended_wall_ns expected_s waits_for",
        "run.note": "run text",
        # action: mtu, autoneg, ... with value; or put-back, with setting; seconds: its duration
        "run.host": "run host port action before after",
        "run.fault": "run fault",  # fault: as it was injected; {"fault": "clear"} when the run ended
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
