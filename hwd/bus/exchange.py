"""ClockExchange: the questions that align the clock of one boot of an agent, and their answers."""

import asyncio

from hwd.bus.intake import check_times
from hwd.timeline.alignment import Aligner, Alignment, Sample
from hwd_agents.wire import ClockReply
from hwd_drivers.kit.errors import ProtocolError

SAMPLES_LEAST = 5
"""Before the first alignment: one exchange alone could have been delayed."""
FORGET_AFTER_NS = 5_000_000_000


class ClockExchange:
    """Numbers the requests, pairs the replies, and keeps the alignment."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.answered = asyncio.Event()
        self._aligner = Aligner(boot)
        self._asked: dict[int, int] = {}
        self._next_id = 1
        self._samples = 0

    @property
    def alignment(self) -> Alignment | None:
        return self._aligner.alignment() if self._samples >= SAMPLES_LEAST else None

    @property
    def steps(self) -> int:
        """How often the clock was found to have been stepped."""
        return self._aligner.steps

    @property
    def asked(self) -> int:
        """How many requests were sent."""
        return self._next_id - 1

    def ask(self, t1_ns: int) -> int:
        """Return the id of a request that is sent now."""
        for id in [id for id, asked_ns in self._asked.items() if t1_ns - asked_ns > FORGET_AFTER_NS]:
            del self._asked[id]
        id, self._next_id = self._next_id, self._next_id + 1
        self._asked[id] = t1_ns
        self.answered.clear()
        return id

    def take(self, reply: ClockReply, t4_ns: int) -> bool:
        """Take a reply; False where nobody asked, or where it came before. Raises ProtocolError for times that cannot be."""
        t1_ns = self._asked.get(reply.id)
        if t1_ns is None or t1_ns != reply.t1_ns:
            return False
        del self._asked[reply.id]
        if not self._asked:
            self.answered.set()
        check_times(reply.t2_ns, reply.t3_ns)
        sample = Sample(t1_ns=t1_ns, t2_ns=reply.t2_ns, t3_ns=reply.t3_ns, t4_ns=t4_ns)
        if not sample.possible:
            raise ProtocolError(f"clock reply {reply.id}: time runs backwards in {sample}")
        self._aligner.add(sample)
        self._samples += 1
        return True
