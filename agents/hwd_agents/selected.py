"""A selection as a job asks for it, and as it is answered and told."""

import msgspec

from hwd_agents.linkup import PortUp


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job asks. `set`: {switch: crossconnects, such as `in-2`}; `within_s`: for all of it, from when it came; late, it does not begin.

    `by_s`: not later than this either, of this machine's CLOCK_MONOTONIC, so that one that lay unread is late too. `epoch`: the one it was made for, for all switches or by switch; left out, it is for whichever is in force. `id` comes back in the answer.
    """

    set: dict[str, str]
    within_s: float = 1.0
    by_s: float | None = None
    epoch: int | dict[str, int] | None = None
    id: str | int | None = None


class SwitchSet(msgspec.Struct, kw_only=True):
    """What became of one switch. `now`: what it reported after, None where nobody knows. Stamps are of this host's clock, and exact."""

    epoch: int
    wanted: list[str]
    before: list[str]
    now: list[str] | None = None
    removed: list[str] = []
    added: list[str] = []
    commands: int = 0
    commanded_ns: int | None = None
    acknowledged_ns: int | None = None
    why: str = ""


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, and the data of the event `selection`.

    `outcome`: `up`: the switches are set and read back, every port behind them has carrier; `not-up`: set, and not every port has; `failed`: a switch
    was not set, and nothing was brought back; `refused`: nothing was touched; `unknown`, never an answer: its agent was killed in the middle of it, and `now` is
    what the next one found. `why` says it in words. Times are ns of this host's clock.
    """

    outcome: str
    why: str = ""
    selection: str = ""
    switches: dict[str, SwitchSet] = {}
    ports: dict[str, PortUp] = {}
    requested_ns: int
    answered_ns: int
    id: str | int | None = None
