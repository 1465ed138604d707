"""A selection as it is answered and told."""

import msgspec

from .bounds import At, ByName, Ends, Name, Number, Text


class PortUp(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one port. The carrier came between `earliest_ns` (None: nobody knows since when) and `at_ns`.

    `kept`: it never fell, so that nothing is proven of the far end; `fell_ns`: when it was first seen gone. `why`: why
    it is not up.
    """

    up: bool
    kept: bool = False
    fell_ns: At | None = None
    earliest_ns: At | None = None
    at_ns: At | None = None
    why: Text = ""


class SwitchSet(msgspec.Struct, kw_only=True):
    """What became of one switch.

    `now`: what it reported after, None where nobody knows. Stamps are of this host's clock, and exact.
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
    every port has; `failed`: a switch was not set, and nothing was brought back; `refused`: nothing was touched;
    `unknown`, never an answer: its agent was killed in the middle of it, and `now` is what the next one found. `why`
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
