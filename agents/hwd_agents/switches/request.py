"""Request: a selection as a job asks for it; the answer is `hwd_agents.wire.Selected`."""

import msgspec

from hwd_agents.wire.bounds import At, Text


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job's request. `set`: {switch: crossconnects, such as `in-2`}.

    `within_s`: limit for all of it, from its arrival; it does not begin after that. `by_s`: a further limit, of this
    machine's CLOCK_MONOTONIC, so that a request that was not read for long is also late. `epoch`: the one that it
    requires, for all switches or by switch; None: whichever is in force. `id` is returned in the answer.
    """

    set: dict[str, str]
    within_s: float = 1.0
    by_s: float | None = None
    epoch: int | dict[str, int] | None = None
    id: Text | At | None = None
