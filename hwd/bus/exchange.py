"""ClockExchange: the questions that align the clock of one boot of an agent, and their answers."""

import asyncio
from collections import deque

from hwd.bus.intake import check_times
from hwd.timeline.alignment import Aligner, Alignment, Sample
from hwd_agents.wire import ClockReply
from hwd_drivers.kit.errors import ProtocolError

SAMPLES_LEAST = 5
"""Before the first alignment: one exchange alone could have been delayed."""
FORGET_AFTER_NS = 5_000_000_000
QUICK = 1.1
"""A burst whose quickest ways, there and back, are together at most so much longer than those of the best one tells as much."""
BURSTS_REMEMBERED = 20
"""A minute of them."""


class ClockExchange:
    """Numbers the requests, pairs the replies, and keeps the alignment."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.answered = asyncio.Event()
        self._aligner = Aligner(boot)
        self._asked: dict[int, int] = {}
        self._next_id = 1
        self._samples = 0
        self._bursts = deque([_Burst()], maxlen=BURSTS_REMEMBERED)

    @property
    def alignment(self) -> Alignment | None:
        return self._aligner.alignment() if self._samples >= SAMPLES_LEAST else None

    @property
    def quick(self) -> bool:
        """Whether this burst was about as quick as the best ones, once each way, so that more of it would tell little."""
        widths_ns = [burst.width_ns for burst in self._bursts]
        return widths_ns[-1] is not None and widths_ns[-1] <= QUICK * min(
            width for width in widths_ns if width is not None
        )

    @property
    def steps(self) -> int:
        """How often the clock was found to have been stepped."""
        return self._aligner.steps

    @property
    def asked(self) -> int:
        """How many requests were sent."""
        return self._next_id - 1

    def begin_burst(self) -> None:
        """What comes from now on is measured for `quick`."""
        self._bursts.append(_Burst())

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
        self._bursts[-1].take(sample)
        self._samples += 1
        return True


class _Burst:
    """The quickest way there and the quickest way back, though of two exchanges: load slows one way now and the other then."""

    def __init__(self) -> None:
        self._there_ns: int | None = None
        self._back_ns: int | None = None

    @property
    def width_ns(self) -> int | None:
        """The clocks' offset is left out of their sum; None before the first answer."""
        return None if self._there_ns is None or self._back_ns is None else self._there_ns + self._back_ns

    def take(self, sample: Sample) -> None:
        there_ns, back_ns = sample.t2_ns - sample.t1_ns, sample.t4_ns - sample.t3_ns
        self._there_ns = there_ns if self._there_ns is None else min(self._there_ns, there_ns)
        self._back_ns = back_ns if self._back_ns is None else min(self._back_ns, back_ns)
