"""Switches: their sessions, their reports and the commands sent to them, in series."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

from hwd.model.switch import SwitchDrift, SwitchOverrun, SwitchUnknown, still_missing
from hwd.telemetry.buckets import SERIES, Buckets
from hwd.telemetry.budget import VERBS
from hwd.telemetry.series import Series
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortOverride
from hwd_drivers.devices.facts import (
    SwitchCommand,
    SwitchDown,
    SwitchFact,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

COMMAND_VERBS = ("connect", "disconnect", "change", "block", "unblock")
COMMAND_OUTCOMES = ("done", "denied", "lost", "timeout", "garbled")


class Switches:
    """Takes all documents whose subject is `switch`, and by the windows of `reconfiguration.commanded`."""

    def __init__(self, *, switches: int, ends: int) -> None:
        self._blocked_ends: dict[str, set[str]] = {}
        self._switch_up = Series(
            "hwd_switch_up", "1 while there is a session with the switch", "switch", limit=switches
        )
        self._crossconnects = Series(
            "hwd_crossconnects",
            "Crossconnects that the switch reports",
            *("switch", "state"),
            limit=switches * len(CrossconnectState),
        )
        self._commands = Series(
            "hwd_switch_commands_total",
            "Commands sent to a switch",
            *("switch", "verb", "outcome"),
            limit=switches * VERBS * len(COMMAND_OUTCOMES),
        )
        self._moves = Series(
            "hwd_switch_moves_total",
            "Moves of the elements of a switch, or of its mirrors, by commands of hwd",
            "switch",
            limit=switches,
        )
        self._foreign = Series(
            "hwd_switch_foreign_changes_total",
            "Changes of crossconnects that we had not asked for",
            "switch",
            limit=switches,
        )
        self._restarts = Series(
            "hwd_switch_restarts_total",
            "Restarts of a switch, by its uptime, or as it is after its power was off",
            "switch",
            limit=switches,
        )
        self._restart_missing = Series(
            "hwd_switch_restart_missing",
            "Crossconnects that a switch lost by its last restart and that were not made again or replaced since",
            "switch",
            limit=switches,
        )
        self._missing: dict[str, list[Crossconnect]] = {}
        self._drift = Series(
            "hwd_switch_drift",
            "Crossconnects of a switch that are desired and missing, or there where something else is desired",
            "switch",
            limit=switches,
        )
        self._overruns = Series(
            "hwd_switch_overruns_total",
            "Changes of ours that took away what another client made between our read and our write",
            "switch",
            limit=switches,
        )
        self._blocked = Series(
            "hwd_switch_blocked_ends", "Fibre ends that an override holds dark", "switch", limit=switches
        )
        self._power = Series(
            "hwd_port_power_dbm", "Optical power of a fibre end; absent where dark", "switch", "port", limit=ends
        )
        self._command_seconds = Buckets(
            "hwd_switch_command_seconds",
            "From the first byte sent to the whole answer",
            "switch",
            limit=switches * SERIES,
        )
        self._unguarded_seconds = Buckets(
            "hwd_switch_unguarded_seconds",
            "From our last read of a switch to our first byte: what others change meanwhile is overrun",
            "switch",
            limit=switches * SERIES,
        )

    def __iter__(self) -> Iterator[Series | Buckets]:
        return (value for value in vars(self).values() if isinstance(value, Series | Buckets))

    def forget(self, switch: str) -> None:
        """Forget a switch that is no part of the testbed any more, or another device."""
        for series in self:
            series.drop(switch)
        self._blocked_ends.pop(switch, None)
        self._missing.pop(switch, None)

    def unguarded(self, switch: str, seconds: float) -> None:
        """Observe the time from our last read of a switch to our first byte."""
        self._unguarded_seconds.observe(seconds, switch)

    def take(self, fact: SwitchFact) -> None:
        switch = fact.switch
        match fact:
            case SwitchUp():
                self._switch_up.set(1, switch)
                self._moves.add(0, switch)
                self._foreign.add(0, switch)
                self._overruns.add(0, switch)
                self._drift.set(0, switch)
                self._restarts.add(0, switch)
                self._restart_missing.add(0, switch)
                self._blocked_ends[switch] = set()  # documents of ends that are still blocked follow
                self._blocked.set(0, switch)
                for verb, outcome in product(COMMAND_VERBS, COMMAND_OUTCOMES):
                    self._commands.add(0, switch, verb, outcome)
            case SwitchDown():
                self._switch_up.set(0, switch)
                self._drift.drop(switch)
                self._crossconnects.drop(switch)
                self._power.drop(switch)
                self._blocked.drop(switch)
                self._blocked_ends.pop(switch, None)
            case SwitchUnknown():
                for series in (self._switch_up, self._crossconnects, self._power, self._blocked, self._drift):
                    series.drop(switch)
                self._blocked_ends.pop(switch, None)
            case SwitchDrift(missing=missing, stale=stale):
                self._drift.set(len(missing) + len(stale), switch)
            case SwitchRestarted(lost=lost):
                self._restarts.add(1, switch)
                self._missing[switch] = lost
                self._restart_missing.set(len(lost), switch)
            case SwitchOverrun():
                self._overruns.add(1, switch)
            case SwitchOverride(ends=ends, to=to):
                blocked = self._blocked_ends.setdefault(switch, set())
                (blocked.update if to is PortOverride.FORCE_BLOCKED else blocked.difference_update)(ends)
                self._blocked.set(len(blocked), switch)
            case SwitchRead(crossconnects=crossconnects, added=added, ours=ours):
                if lacking := self._missing.get(switch):
                    self._missing[switch] = still_missing(lacking, added)
                    self._restart_missing.set(len(self._missing[switch]), switch)
                self._foreign.add(float(not ours), switch)
                self._crossconnects.drop(switch)
                for state, count in Counter(one.state for one in crossconnects).items():
                    self._crossconnects.set(count, switch, state)
            case SwitchCommand(verb=verb, outcome=outcome, seconds=seconds, moved=moved):
                self._commands.add(1, switch, verb, outcome)
                self._moves.add(len(moved or ()), switch)
                self._command_seconds.observe(seconds, switch)
            case SwitchPower(power_dbm=powers):
                for end, power_dbm in powers.items():
                    if power_dbm is None:
                        self._power.drop(switch, end)
                    else:
                        self._power.set(power_dbm, switch, end)
