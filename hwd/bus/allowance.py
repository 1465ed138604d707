"""Allowance: rate limits for the messages of one host, so that no agent can fill the records."""

from typing import Final

from hwd.model.limit import Limit, Reached
from hwd_agents.probes.token_bucket import Bucket

BIRTH_MOST_BYTES: Final = 512 << 10
"""The largest birth. A NIC port takes some 2 kB."""
BOOTS_PER_S, BOOTS_MOST = 0.2, 16
"""New boots: each makes three documents, `host.birth`, `host.down` and `host.up`."""
BIRTHS_PER_S, BIRTHS_MOST = 16 << 10, 2 << 20
"""Bytes of births of one boot that differ from the birth before."""
UNKNOWN_BOOTS_PER_S, UNKNOWN_BOOTS_MOST = 0.2, 256
"""Boots whose birth this daemon never received and whose events come: a spool may hold those of many, and each leaves
a row in the records."""
STATES_PER_S, STATES_MOST = 1.0, 20
"""State messages `down` and `lost`."""
EVENTS_PER_S, EVENTS_MOST = 256 << 10, 128 << 20
"""Bytes of events: several full spools at once, and then more than any host produces."""

ASKS_PER_S, ASKS_MOST = 500.0, 2000
"""Asks: each of eight ranks of a host may claim and end some tens of phases a second."""


class Allowance:
    """The limits of one host. Each method returns whether a message is within its limit, and calls `reached` if not."""

    def __init__(self, host: str, reached: Reached) -> None:
        self._host = host
        self._reached = reached
        self._boots = Bucket(per_s=BOOTS_PER_S, most=BOOTS_MOST)
        self._unknown_boots = Bucket(per_s=UNKNOWN_BOOTS_PER_S, most=UNKNOWN_BOOTS_MOST)
        self._births = Bucket(per_s=BIRTHS_PER_S, most=BIRTHS_MOST)
        self._states = Bucket(per_s=STATES_PER_S, most=STATES_MOST)
        self._asks = Bucket(per_s=ASKS_PER_S, most=ASKS_MOST)
        self._events = Bucket(per_s=EVENTS_PER_S, most=EVENTS_MOST)
        self.events_refused = 0
        """Messages of events over the limit: they are not lost, as their agent sends them again."""

    def birth_of(self, size_bytes: int) -> bool:
        """Whether the size of a birth is within the limit."""
        return size_bytes <= BIRTH_MOST_BYTES or self._over(
            Limit.AGENT_BIRTH, f"a birth of {size_bytes} bytes, at most {BIRTH_MOST_BYTES}"
        )

    def boot(self, *, quietly: bool = False) -> bool:
        """Whether one more new boot may begin now. `quietly`: a repeated attempt, which does not call `reached`."""
        return self._boots.take() or (
            not quietly
            and self._over(
                Limit.AGENT_BIRTH,
                f"a new boot, where {BOOTS_MOST} at once and then one in {1 / BOOTS_PER_S:g} s may begin",
            )
        )

    def birth(self, size_bytes: int, *, quietly: bool = False) -> bool:
        """Whether a changed birth may be emitted now."""
        return self._births.take(size_bytes) or (
            not quietly
            and self._over(
                Limit.AGENT_BIRTH, f"a changed birth of {size_bytes} bytes, where {BIRTHS_PER_S} bytes/s are told"
            )
        )

    def state(self) -> bool:
        """Whether one more state message that the agent is down may be emitted now."""
        return self._states.take() or self._over(
            Limit.AGENT_STATE, f"its agent says that it is down more often than {STATES_PER_S:g} times/s"
        )

    def events(self, size_bytes: int) -> bool:
        """Whether so many bytes of events are accepted now. The agent sends the others again from its spool."""
        if self._events.take(size_bytes):
            return True
        self.events_refused += 1
        return self._over(Limit.AGENT_EVENTS, f"events over {EVENTS_PER_S} bytes/s; they wait in its spool")

    def ask(self) -> bool:
        """Whether the agent may ask something now."""
        return self._asks.take() or self._over(
            Limit.AGENT_ASKS, f"asks, where {ASKS_MOST} at once and then {ASKS_PER_S:g} a second are taken"
        )

    def unknown_boot(self) -> bool:
        """Whether events of one more boot whose birth never came are accepted now.

        The agent sends the others again from its spool.
        """
        return self._unknown_boots.take() or self._over(
            Limit.AGENT_EVENTS,
            f"events of a boot that was not heard of, "
            f"where {UNKNOWN_BOOTS_MOST} at once and then one in {1 / UNKNOWN_BOOTS_PER_S:g} s are taken",
        )

    def _over(self, limit: Limit, detail: str) -> bool:
        self._reached(limit, f"{self._host}: {detail}")
        return False
