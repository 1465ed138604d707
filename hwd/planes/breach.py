"""Breach: what a plane did that none may do, and the error that says so."""

from enum import StrEnum

from hwd_drivers.core.errors import FailedError


class Breach(StrEnum):
    """A breach of the rules by a plane."""

    UNDECLARED = "undeclared target"
    """The plane switches to a target that it has not declared, or that has gone."""
    OVERLAP = "overlapping ports"
    """A NIC port, or a fibre end, is in two links, or crossconnects, of one target."""
    FOREIGN = "foreign port"
    """A target, or a route, uses a port that is not the job's."""
    EARLY_GRANT = "grant before applied"
    """The plane lets a rank send over ports that are moving, or where no light that was seen ready joins its group."""
    UNDER_TRANSFER = "switch under a transfer"
    """The plane moves ports over which a rank sends."""
    NO_ANSWER = "never answers"
    """Ranks wait, and nothing is left that could let them go."""
    RAISED = "raises"
    """An exception came out of it."""
    NOT_DETERMINISTIC = "not deterministic"
    """The plane answered the same job, view and events with other actions."""
    NOT_WAITING = "answer to nobody"
    """The plane answers a rank that does not wait."""
    MOVING = "switch while moving"
    """The plane switches ports that are on the way to another target already: that was neither applied nor not ready
    yet.
    """
    NOT_ALLOWED = "fallback that is not allowed"
    """The policy of the job has none."""
    NO_ACTION = "no action"
    """The plane answers with what is no action, or with targets that are none."""
    NEVER_RETURNS = "never returns"
    """The plane did not answer within the deadline of its job, or so late that too many events wait for it."""
    TOO_MUCH = "takes too much"
    """The plane takes more memory, or answers with more, than it may."""
    DIED = "its process ended"
    """The process of the plane was killed, or ended itself, or closed its connection."""


class PlaneError(FailedError):
    """A plane broke a rule."""

    title = "a control plane broke a rule"

    def __init__(self, breach: Breach, what: str) -> None:
        super().__init__(f"{breach}: {what}")
        self.breach = breach
        self.what = what
