"""A selection as a job asks for it; `hwd_agents.wire.Selected` is how it is answered and told."""

import msgspec

from hwd_agents.wire.bounds import At, Text


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job asks. `set`: {switch: crossconnects, such as `in-2`}; `within_s`: for all of it, from when it came; late, it does not begin.

    `by_s`: not later than this either, of this machine's CLOCK_MONOTONIC, so that one that lay unread is late too. `epoch`: the one it was made for, for all switches or by switch; left out, it is for whichever is in force. `id` comes back in the answer.
    """

    set: dict[str, str]
    within_s: float = 1.0
    by_s: float | None = None
    epoch: int | dict[str, int] | None = None
    id: Text | At | None = None
