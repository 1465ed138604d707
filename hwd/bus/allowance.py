"""Allowance: how much one host may make the daemon write, so that no agent can fill the records."""

from typing import Final

from hwd.model.limit import Limit, Reached
from hwd_agents.probes.token_bucket import Bucket

BIRTH_MOST_BYTES: Final = 512 << 10
"""Of one birth. A NIC port takes some 2 kB."""
BOOTS_PER_S, BOOTS_MOST = 0.2, 16
"""New boots: each is a birth, a host that went down and one that came up."""
BIRTHS_PER_S, BIRTHS_MOST = 16 << 10, 2 << 20
"""Bytes of births of one boot that differ from the one before."""
UNBORN_PER_S, UNBORN_MOST = 0.2, 256
"""Boots that were never born to this daemon, of which events come: a spool may hold those of many, and each leaves a
mark for good."""
STATES_PER_S, STATES_MOST = 1.0, 20
"""Messages that the agent is down or lost."""
EVENTS_PER_S, EVENTS_MOST = 256 << 10, 128 << 20
"""Bytes of events: several spools at once, and then more than any host has to tell."""


class Allowance:
    """Of one host.

    What is over it is refused here, told to `reached`, and comes again or is made up for, as the caller says.
    """

    def __init__(self, host: str, reached: Reached) -> None:
        self._host = host
        self._reached = reached
        self._boots = Bucket(per_s=BOOTS_PER_S, most=BOOTS_MOST)
        self._unborn = Bucket(per_s=UNBORN_PER_S, most=UNBORN_MOST)
        self._births = Bucket(per_s=BIRTHS_PER_S, most=BIRTHS_MOST)
        self._states = Bucket(per_s=STATES_PER_S, most=STATES_MOST)
        self._events = Bucket(per_s=EVENTS_PER_S, most=EVENTS_MOST)
        self.events_refused = 0
        """Messages of events that were over it: they came, and are not lost."""

    def birth_of(self, size_bytes: int) -> bool:
        """Whether a birth is not too large."""
        return size_bytes <= BIRTH_MOST_BYTES or self._over(
            Limit.AGENT_BIRTH, f"a birth of {size_bytes} bytes, at most {BIRTH_MOST_BYTES}"
        )

    def boot(self, *, quietly: bool = False) -> bool:
        """Whether one more new boot may begin now; one that waits already asks `quietly`."""
        return self._boots.take() or (
            not quietly
            and self._over(
                Limit.AGENT_BIRTH,
                f"a new boot, where {BOOTS_MOST} at once and then one in {1 / BOOTS_PER_S:g} s may begin",
            )
        )

    def birth(self, size_bytes: int, *, quietly: bool = False) -> bool:
        """Whether a birth that changed may be told now."""
        return self._births.take(size_bytes) or (
            not quietly
            and self._over(
                Limit.AGENT_BIRTH, f"a changed birth of {size_bytes} bytes, where {BIRTHS_PER_S} bytes/s are told"
            )
        )

    def state(self) -> bool:
        """Whether it may say once more that it is down."""
        return self._states.take() or self._over(
            Limit.AGENT_STATE, f"its agent says that it is down more often than {STATES_PER_S:g} times/s"
        )

    def events(self, size_bytes: int) -> bool:
        """Whether so many bytes of events are taken now. What is not comes again from its spool."""
        if self._events.take(size_bytes):
            return True
        self.events_refused += 1
        return self._over(Limit.AGENT_EVENTS, f"events over {EVENTS_PER_S} bytes/s; they wait in its spool")

    def unborn(self) -> bool:
        """Whether events of one more boot that was never born to this daemon are taken now.

        What is not comes again from its spool.
        """
        return self._unborn.take() or self._over(
            Limit.AGENT_EVENTS,
            f"events of a boot that was not heard of, "
            f"where {UNBORN_MOST} at once and then one in {1 / UNBORN_PER_S:g} s are taken",
        )

    def _over(self, limit: Limit, detail: str) -> bool:
        self._reached(limit, f"{self._host}: {detail}")
        return False
