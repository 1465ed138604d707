"""The rules of the ledger: for each reason of a claim, what it bars, who passes it, and the text of its refusal.

A new rule is a line of `ROWS`; a new reason is a member of `Reason` and a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Final


class Reason(StrEnum):
    """Why somebody has ports. A refusal names the first one of this order."""

    LEASE = "lease"
    """A person, a job or a run asked for them, until a time."""
    RECONFIGURATION = "reconfiguration"
    """A reconfiguration in progress changes them, or may roll them back."""
    CUT_OFF = "cut-off"
    """A reconfiguration was cut off, and is neither undone nor finished yet."""
    IN_DOUBT = "in-doubt"
    """A damaged journal does not tell whether a reconfiguration had ended; an operator has to decide."""
    PREPARED_SET = "prepared-set"
    """The ports belong to a prepared set, which may be switched to another of its targets at any time."""
    DELEGATION = "delegation"
    """The ports belong to a switch of a host, which alone sets it, under an epoch."""
    SETTINGS = "settings"
    """A run has changed settings of these NIC ports, and they are not restored."""
    RUN = "run"
    """A run in progress may use them: other runs wait in the queue, nobody else does."""
    RESERVATION = "reservation"
    """A person or a job asked for a lease from a time to come until another."""
    WAIT = "wait"
    """Somebody waits in the queue of leases for them."""
    DUE_RUN = "due-run"
    """A queued run has a due time, and takes a lease of them then."""
    TRANSFER = "transfer"
    """A process of a host is sending over them now."""
    UNREPORTED = "unreported"
    """A host may still send over them: its agent has not said so since the daemon started."""
    DRAIN = "drain"
    """A reconfiguration waits for the end of the transfers on them."""
    RELOAD = "reload"
    """A reload of the testbed file waits for those who have them."""
    OVERRIDE = "override"
    """An override of fibre ends is being sent that makes them dark, or lit."""


class PortAction(StrEnum):
    """An action that somebody wants to do on ports."""

    LEASE = "lease"
    """Take a lease."""
    RESERVE = "reserve"
    """Reserve a lease for a time to come."""
    RELY = "rely"
    """Plan light over them in a reconfiguration, whether or not they change."""
    CHANGE = "change"
    """Change the light that passes them by a reconfiguration."""
    OVERRIDE = "override"
    """Hold fibre ends dark, or release them, outside of a reconfiguration."""
    SET = "set"
    """Change a setting of a NIC port."""
    PUT_BACK = "put-back"
    """Restore settings of NIC ports that a run has changed."""
    FAULT = "fault"
    """Set or clear a fault of a twin."""
    START = "start"
    """Start a run that may use them."""
    TRANSFER = "transfer"
    """Send over them, from now until the end of a phase."""


class Pass(Flag):
    """Who may act in spite of a claim."""

    NONE = 0
    ITSELF = auto()
    """Who acts under this lease, or is this reconfiguration, this request for a lease or this prepared set."""
    ITS_RUN = auto()
    """The run of the claim."""
    COVERED = auto()
    """Who acts under a lease that covers the ports."""
    RUN_IS_OVER = auto()
    """Everybody, when the run of the claim has ended."""
    RUN_IS_ACTIVE = auto()
    """Everybody, while the run of the claim is active."""
    CUTS = auto()
    """Who may cut transfers: a way back, or somebody who has overridden that interlock."""
    AT_REST = auto()
    """Everybody, while the reconfiguration of the claim moves nothing and waits for its confirm."""
    WAY_BACK = auto()
    """What brings light back that was there: the drift policy, and the baseline of a lease."""
    HOLDER = auto()
    """Who has some of these ports already: a reconfiguration, a prepared set, a request for a lease, an active run. Not
    a lease: what begins under one may outlast it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a reason bars an action. `whole`: the ports and whole switches that the claim relies on count too. `spans`:
    claims that are in force at any time of the action bar it, else those that are in force now.
    """

    passes: Pass = Pass.NONE
    whole: bool = False
    spans: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the rules: the actions that the claims of a reason bar. An action without a rule is not barred.

    `says`: whose the ports are, and until when; `remedy`: what to do next, for who is refused; `ending`: what ends the
    claim, for who waits for that, where it is something else. They have the fields of a claim, `left_s`, `begins` and
    `ends`. `dated`: such a claim is not in force before its `since_wall_ns`.
    """

    says: str
    remedy: str = ""
    ending: str = ""
    dated: bool = False
    bars: Mapping[PortAction, Rule] = field(default_factory=dict)


_ALL = Rule()
_IN_FLIGHT: Final = {PortAction.CHANGE: Rule(passes=Pass.CUTS), PortAction.OVERRIDE: Rule(passes=Pass.CUTS)}
_NOT_UNDONE: Final = {
    PortAction.LEASE: _ALL,
    PortAction.RELY: Rule(whole=True),
    PortAction.CHANGE: _ALL,
    PortAction.OVERRIDE: _ALL,
    PortAction.SET: Rule(passes=Pass.ITS_RUN),
    PortAction.PUT_BACK: Rule(passes=Pass.ITS_RUN),
}

ROWS: Final[Mapping[Reason, Row]] = {
    Reason.LEASE: Row(
        says="leased to {owner} ({id}) for another {left_s:.0f} s",
        remedy="Wait, ask {owner} to release it, or act under it with --lease {id} if it is yours",
        ending="It ends then; before, {owner} may release it: `hwd lease release {id}`. `hwd lease kick {id}` is for a "
        "lease whose owner is gone",
        bars={
            PortAction.LEASE: _ALL,
            PortAction.RESERVE: Rule(spans=True),
            PortAction.CHANGE: Rule(passes=Pass.ITSELF),
            PortAction.OVERRIDE: Rule(passes=Pass.ITSELF),
            PortAction.SET: Rule(passes=Pass.ITSELF | Pass.ITS_RUN),
            PortAction.PUT_BACK: Rule(passes=Pass.ITSELF | Pass.ITS_RUN),
            PortAction.FAULT: Rule(passes=Pass.ITSELF | Pass.ITS_RUN),
        },
    ),
    Reason.RECONFIGURATION: Row(
        says="reconfiguration {id} is under way on it: {what}, asked for by {owner}; {why}",
        remedy="Wait for its end, which `hwd watch --kind reconfiguration.ended` shows. To end it before is up to "
        "{owner}: `hwd rollback {id}`, or `hwd confirm {id}` where it awaits that",
        bars={
            PortAction.LEASE: _ALL,
            PortAction.RELY: Rule(passes=Pass.ITSELF, whole=True),
            PortAction.CHANGE: Rule(passes=Pass.ITSELF),
            PortAction.OVERRIDE: Rule(whole=True),
            PortAction.SET: Rule(passes=Pass.ITS_RUN),
            PortAction.PUT_BACK: Rule(passes=Pass.ITS_RUN),
            PortAction.TRANSFER: Rule(passes=Pass.AT_REST),
        },
    ),
    Reason.CUT_OFF: Row(
        says="reconfiguration {id} ({what}) was cut off and is not undone yet: {why}",
        remedy="Wait: it is tried again and again; `hwd give-up {id}` leaves it as it is, which is up to {owner}",
        bars={**_NOT_UNDONE, PortAction.TRANSFER: _ALL},
    ),
    Reason.IN_DOUBT: Row(says="{id} ({what}): {why}", bars=_NOT_UNDONE),
    Reason.PREPARED_SET: Row(
        says="held by prepared set {id} of {owner}, {why}",
        remedy="Wait for that. To end it before is up to {owner}: `hwd release {id}`",
        bars={
            PortAction.LEASE: _ALL,
            PortAction.RELY: Rule(passes=Pass.ITSELF, whole=True),
            PortAction.CHANGE: Rule(passes=Pass.ITSELF),
            PortAction.OVERRIDE: Rule(passes=Pass.COVERED),
            PortAction.SET: Rule(passes=Pass.ITS_RUN | Pass.COVERED),
        },
    ),
    Reason.DELEGATION: Row(
        says="switch {id} belongs to host {owner}, which alone sets it: hwd-agent select {id}:... on {owner}",
        bars={
            PortAction.LEASE: _ALL,
            PortAction.RESERVE: _ALL,
            PortAction.CHANGE: _ALL,
            PortAction.OVERRIDE: _ALL,
            PortAction.SET: _ALL,
        },
    ),
    Reason.SETTINGS: Row(
        says="settings of run {run} are not put back yet: {why}",
        remedy="They are put back by themselves as soon as that is possible; where it never will be, "
        "`hwd lease kick {id}` frees the ports as they are",
        bars={
            PortAction.LEASE: Rule(passes=Pass.ITS_RUN),
            PortAction.CHANGE: Rule(passes=Pass.ITS_RUN | Pass.COVERED),
            PortAction.OVERRIDE: Rule(passes=Pass.ITS_RUN | Pass.COVERED),
            PortAction.SET: Rule(passes=Pass.ITS_RUN),
            PortAction.PUT_BACK: Rule(passes=Pass.ITS_RUN | Pass.RUN_IS_OVER),
            PortAction.START: Rule(passes=Pass.RUN_IS_ACTIVE),
        },
    ),
    Reason.RUN: Row(
        says="run {run} ({what}) is under way, {why}",
        remedy="Wait for its end. To end it before is up to who started it: `hwd abort {run}`",
        bars={PortAction.START: _ALL},
    ),
    Reason.RESERVATION: Row(
        says="reserved by {owner} ({id}) from {begins} to {ends}",
        remedy="Be done before that, come after it, or ask {owner} to release it",
        ending="It ends then; before, {owner} may withdraw it: `hwd lease release {id}`. `hwd lease kick {id}` is for "
        "a reservation whose owner is gone",
        dated=True,
        bars={
            PortAction.LEASE: Rule(passes=Pass.ITSELF, spans=True),
            PortAction.RESERVE: Rule(spans=True),
            PortAction.CHANGE: _ALL,
            PortAction.OVERRIDE: _ALL,
            PortAction.START: Rule(spans=True),
        },
    ),
    Reason.WAIT: Row(
        says="{owner} ({id}) waits for it in the queue",
        remedy="Wait behind with `hwd lease take --queue`",
        ending="It goes on once its lease is over; before, {owner} may leave the queue: `hwd lease release {id}`",
        bars={PortAction.LEASE: Rule(passes=Pass.ITSELF)},
    ),
    Reason.DUE_RUN: Row(
        says="run {run} ({what}) is due there from {begins} to {ends}",
        remedy="Reserve another time. To take it out of the queue is up to who queued it: `hwd abort {run}`",
        ending="It ends then; before, who queued it may take it out of the queue: `hwd abort {run}`",
        dated=True,
        bars={PortAction.RESERVE: Rule(spans=True)},
    ),
    Reason.TRANSFER: Row(
        says="transfer {id} of {owner} is in flight on it, phase {what}, since {begins}, {why}",
        remedy="Wait for its end, or let `hwd apply` wait for it with --drain-within S",
        ending="It ends with its phase",
        bars=_IN_FLIGHT,
    ),
    Reason.UNREPORTED: Row(
        says="host {owner} may be sending over it: {why}",
        remedy="Wait for its report, or let `hwd apply` wait for it with --drain-within S",
        ending="It ends with the report of its agent",
        bars=_IN_FLIGHT,
    ),
    Reason.DRAIN: Row(
        says="reconfiguration {id} ({what}) of {owner} waits for the end of the transfers on it, and moves it then",
        remedy="Ask again when it is done, or send another way meanwhile",
        ending="It ends with them; to end it before is up to {owner}: `hwd rollback {id}`",
        bars={PortAction.TRANSFER: _ALL},
    ),
    Reason.RELOAD: Row(
        says="held off by a reload of {what} by {owner}, which waits until {ends}, another {left_s:.0f} s, for those "
        "who have the ports that it changes",
        remedy="Ask again after that, or as soon as `hwd history` shows the reload",
        bars={
            PortAction.LEASE: Rule(passes=Pass.HOLDER),
            PortAction.RESERVE: _ALL,
            PortAction.RELY: Rule(passes=Pass.HOLDER | Pass.WAY_BACK),
            PortAction.CHANGE: Rule(passes=Pass.HOLDER | Pass.WAY_BACK),
            PortAction.START: Rule(passes=Pass.HOLDER),
            PortAction.TRANSFER: _ALL,
        },
    ),
    Reason.OVERRIDE: Row(
        says="{owner} sets ends of {id} {what} now, which takes some seconds at most",
        remedy="Ask again",
        ending="It ends by itself",
        bars={PortAction.LEASE: _ALL, PortAction.CHANGE: _ALL, PortAction.TRANSFER: _ALL},
    ),
}
