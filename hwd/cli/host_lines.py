"""Hosts in `hwd status`: a row of each, and a line for each thing that is wrong with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hwd.model.local_time import time_of_day
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd.model.host import HostPort, HostStatus


def host_row(host: "HostStatus", *, connected: bool) -> tuple[object, ...]:
    """A host in the table of `hwd status`. `connected`: whether there is a broker; without it hosts are unknown."""
    if not host.up:
        last_message_ns = host.heard_wall_ns
        why = host.cause if last_message_ns is None else f"not heard since {time_of_day(last_message_ns)}: {host.cause}"
        return host.name, "down" if connected and host.is_known else "unknown", why, "unknown"
    clock = host.clock
    aligned = "" if clock is None else f"{clock.offset_ns / 1e9:+.6f} s ± {clock.error_ns / 1e3:.0f} µs"
    if clock is not None and (step := clock.step) is not None:
        aligned += f", stepped {plural(clock.steps, 'time')}, last by {step.by_ns / 1e9:+.3f} s"
    carriers = [port.carrier for port in host.ports.values()]
    unknown = f", {carriers.count(None)} unknown" if None in carriers else ""
    return host.name, "up", aligned, f"{carriers.count(True)} of {len(carriers)}{unknown}"


def with_joint_advice(hosts: "Sequence[HostStatus]") -> "list[HostStatus]":
    """Hosts whose agents are down alike: one command for all of them in place of one for each."""
    alike: dict[str, list[str]] = {}
    for host in hosts:
        alike.setdefault(_deployed(host, "HOST"), []).append(host.name)
    joined = {key: " ".join(names) for key, names in alike.items()}
    return [replace(host, cause=_deployed(host, joined[_deployed(host, "HOST")])) for host in hosts]


def _deployed(host: "HostStatus", names: str) -> str:
    """Its cause, with other names in the advice to roll its agent out."""
    return host.cause.replace(f"`hwd agent deploy {host.name}`", f"`hwd agent deploy {names}`")


def host_lines(host: "HostStatus") -> list[str]:
    """What is wrong with a host: the version of its agent; ports without their interface, with its present name, where
    the agent knows it, and the remedy; its agent's spool and job socket, other agents with the host's name, and events
    lost since the daemon started; tasks of the daemon for it that fail by a bug.
    """
    trouble = "" if host.spool is None else host.spool.trouble
    lines = [f"{host.name}: {host.skew}"] if host.skew else []
    lines += [
        f"{host.name}.{name}: {_why_away(port) or f'there is no interface {port.interface}'}"
        for name, port in host.ports.items()
        if host.up and not port.present
    ]
    if trouble:
        lines.append(f"{host.name}: spool: {trouble}")
    if rival := host.rival:
        lines.append(
            f"{host.name}: another agent, boot {rival}, has the name of this host; "
            "it is ignored while this one answers. Stop one of them"
        )
    if why := host.selection:
        lines.append(f"{host.name}: jobs cannot set its switches: {why}")
    if lost := host.lost:
        lines.append(
            f"{host.name}: {plural(lost, 'event')} lost, or flaps not observed one by one: "
            "hwd watch --kind host.lost --after 0"
        )
    if host.trouble:
        lines.append(
            f"{host.name}: what the daemon does for it failed: {host.trouble}. The log of the daemon has the trace"
        )
    return lines


def _why_away(port: "HostPort") -> str:
    """Why its agent does not find its interface, where that is known."""
    link = port.sources.get("link")
    return "" if link is None else link.why_not
