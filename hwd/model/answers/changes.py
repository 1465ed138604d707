"""The last change of the crossconnects of a switch, in the answers of the API."""

from typing import Literal

from msgspec import UNSET, UnsetType
from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd_drivers.core.values import Crossconnect

NOT_ENDED = "not ended"
"""The outcome of a reconfiguration that was cut off and whose end is not known."""


class SwitchChange(Answer, frozen=True, kw_only=True):
    """The last change of the crossconnects of a switch, and who made it.

    `origin`: `reconfiguration`, of this daemon; `host`, whose job set it; `restart`, in which it lost crossconnects;
    `other`, not by this daemon: another client, the front panel. The last two have the time when they were found.
    `added`, `removed`: crossconnects such as `1A-2B`; of a reconfiguration what it asked for, which a roll-back has
    undone again. `reconfiguration`, `what`, `outcome`, `run` are those of the first two; the outcome of one that is
    under way is its state, such as `awaiting-confirm`. `lease`: the one under which it was asked for, with its
    `holder`; None without one, left out where that was not recorded.
    """

    wall_ns: int
    origin: Literal["reconfiguration", "host", "restart", "other"]
    added: list[Crossconnect]
    removed: list[Crossconnect]
    reconfiguration: str | None = None
    what: str = ""
    outcome: str | None = None
    run: str | None = None
    host: str | None = None
    lease: str | UnsetType | None = UNSET
    holder: str | None = None

    @property
    def by(self) -> str:
        """Who made it: `run k3v9`, `lease a1 of ada`, `apply without a lease`; empty where that was not recorded."""
        match self.origin:
            case "host":
                return f"host {self.host}"
            case "restart":
                return "a restart of the switch"
            case "other":
                return "not by this daemon"
        if self.run is not None:
            return f"run {self.run}"
        if self.lease is UNSET:
            return ""
        if self.lease is None:
            return "apply without a lease"
        return f"lease {self.lease}{f' of {self.holder}' if self.holder else ''}"

    @override
    def __str__(self) -> str:
        """`reconfiguration k3v9 (pairs rail=0), confirmed, lease a1 of ada`."""
        if self.reconfiguration is None:
            pairs = [*(f"+{one}" for one in self.added), *(f"-{one}" for one in self.removed)]
            return f"{self.by}: {' '.join(pairs)}"
        what = f" ({self.what})" if self.what else ""
        return ", ".join(filter(None, (f"reconfiguration {self.reconfiguration}{what}", self.outcome, self.by)))
