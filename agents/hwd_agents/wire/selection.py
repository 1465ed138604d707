"""The answer to a selection (a job that sets its host's own switches), and the data of its event."""

import msgspec

from .bounds import At, ByName, Ends, Name, Number, Text


class PortUp(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one port. The carrier came between `earliest_ns` (None: unknown) and `at_ns`.

    `kept`: the carrier was never lost, which proves nothing about the far end. `fell_ns`: the first observation of its
    loss. `why`: why the port is not up.
    """

    up: bool
    kept: bool = False
    fell_ns: At | None = None
    earliest_ns: At | None = None
    at_ns: At | None = None
    why: Text = ""


class SwitchSet(msgspec.Struct, kw_only=True):
    """The outcome for one switch.

    `now`: its reported crossconnects afterwards, None where unknown. Stamps are of this host's clock, and exact.
    """

    epoch: Number
    wanted: Ends
    before: Ends
    now: Ends | None = None
    removed: Ends = []
    added: Ends = []
    commands: Number = 0
    commanded_ns: At | None = None
    acknowledged_ns: At | None = None
    why: Text = ""


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, and the data of the event `selection`.

    `outcome`: `up`: the switches are set and read back, every port behind them has carrier; `not-up`: set, and not
    every port has; `failed`: a switch was not set, and nothing was restored; `refused`: nothing was changed;
    `unknown`, never an answer: the agent was killed meanwhile, and `now` is the state that its next process read. `why`
    says it in words. Times are ns of this host's clock.
    """

    outcome: Name
    why: Text = ""
    selection: Name = ""
    switches: ByName[SwitchSet] = {}
    ports: ByName[PortUp] = {}
    requested_ns: At
    answered_ns: At
    id: Text | At | None = None
