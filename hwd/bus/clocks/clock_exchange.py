"""ClockExchange: the requests that align the clock of one boot of an agent, and their replies."""

import asyncio
from collections import deque
from dataclasses import replace
from enum import StrEnum

from hwd.model.host import HostClock
from hwd.timeline.alignment import Aligner, Alignment, Sample
from hwd_agents.wire import ClockReply
from hwd_agents.wire.bounds import NUMBER_MOST
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.structs import to_plain

SAMPLES_LEAST = 5
"""Samples before the first alignment: a single exchange could have been delayed."""
FORGET_AFTER_NS = 5_000_000_000
QUICK = 1.1
"""A burst is as good as the best one if the sum of its smallest delays, there and back, is at most this factor
larger."""
QUICK_UDP_NS = 10_000
"""By UDP this much more is as good, too: the smallest delays are 2 us on one machine, a tenth of which is noise."""
BURSTS_REMEMBERED = 20
"""One minute of bursts."""


class Way(StrEnum):
    """How an agent is asked for the time."""

    UDP = "udp"
    """Datagrams to its clock port, stamped by both kernels."""
    BROKER = "broker"
    """Messages over the broker, stamped as they are read."""


class ClockExchange:
    """Numbers the requests, pairs the replies with them, and computes the alignment."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.answered = asyncio.Event()
        self.aligner = Aligner(boot)
        self._asked: dict[int, int] = {}
        self._aside: set[int] = set()
        self._newest: tuple[int, Sample] | None = None
        self._next_id = 1
        self._samples = 0
        self._bursts = deque([_Burst()], maxlen=BURSTS_REMEMBERED)
        self._burst_id = 1  # the first of this burst
        self._slack_ns = 0
        self.via: Way | None = None
        """How the last answered burst was sent."""
        self.why_not_udp = ""

    @property
    def alignment(self) -> Alignment | None:
        return self.aligner.alignment if self._samples >= SAMPLES_LEAST else None

    @property
    def quick(self) -> bool:
        """Whether this burst is about as good as the best ones, so that more requests would improve little."""
        widths_ns = [burst.width_ns for burst in self._bursts]
        if widths_ns[-1] is None:
            return False
        best_ns = min(width for width in widths_ns if width is not None)
        return widths_ns[-1] <= QUICK * best_ns + self._slack_ns

    @property
    def requests_sent(self) -> int:
        return self._next_id - 1

    @property
    def has_reply(self) -> bool:
        """Whether a reply came in this burst."""
        return self._bursts[-1].width_ns is not None

    def status(self, alignment: Alignment) -> HostClock:
        """The clock, how requests are sent, and the steps of the clock: how many in this boot, and the last of them."""
        return HostClock(
            **to_plain(alignment),
            via=None if self.via is None else str(self.via),
            why_not_udp=self.why_not_udp,
            steps=self.aligner.steps,
            step=self.aligner.last_step,
        )

    def begin_burst(self) -> None:
        """Start a burst: `quick` is about the replies that come from now on."""
        self._bursts.append(_Burst())
        self._burst_id = self._next_id

    def begin_way(self, way: Way) -> None:
        """Send requests another way from now on, whose delays are smaller or larger throughout."""
        self._slack_ns = QUICK_UDP_NS if way is Way.UDP else 0
        self._bursts.clear()
        self.begin_burst()

    def ask(self, t1_ns: int, *, aside: bool = False) -> int:
        """Return the id of a request that is sent now. `answered` does not wait for a request `aside`."""
        for id in [id for id, asked_ns in self._asked.items() if t1_ns - asked_ns > FORGET_AFTER_NS]:
            self.give_up(id)
        id, self._next_id = self._next_id, self._next_id + 1
        self._asked[id] = t1_ns
        if aside:
            self._aside.add(id)
        else:
            self.answered.clear()
        return id

    def sent(self, id: int, t1_ns: int) -> None:
        """Correct the time at which the request was sent: not before `t1_ns`."""
        if id in self._asked:
            self._asked[id] = t1_ns

    def give_up(self, id: int) -> None:
        """Stop waiting for the reply to a request; a later one is dropped."""
        self._asked.pop(id, None)
        self._aside.discard(id)
        self._set_answered()

    def take(self, reply: ClockReply, t4_ns: int) -> bool:
        """Take a reply; False where no request has its id, or where it is a repeated one.

        Raises ProtocolError for impossible times.
        """
        return self._asked.get(reply.id) == reply.t1_ns and self.take_answer(reply.id, reply.t2_ns, reply.t3_ns, t4_ns)

    def take_answer(self, id: int, t2_ns: int, t3_ns: int, t4_ns: int) -> bool:
        """Take the times of a reply by UDP; see `take`."""
        t1_ns = self._asked.get(id)
        if t1_ns is None:
            return False
        self.give_up(id)
        _check_times(id, t2_ns, t3_ns)
        sample = Sample(t1_ns=t1_ns, t2_ns=t2_ns, t3_ns=t3_ns, t4_ns=t4_ns)
        if not sample.possible:
            raise ProtocolError(f"clock reply {id}: time runs backwards in {sample}")
        self.aligner.add(sample)
        self._newest = id, sample
        self._measure(id, sample)
        self._samples += 1
        return True

    def correct_sent(self, id: int, t3_ns: int) -> None:
        """Correct the time at which the newest reply was sent, if it has this id: not before `t3_ns`.

        Raises ProtocolError for an impossible time.
        """
        if self._newest is None or self._newest[0] != id or t3_ns <= self._newest[1].t3_ns:
            return
        _check_times(id, t3_ns)
        sample = replace(self._newest[1], t3_ns=t3_ns)
        if not sample.possible:
            raise ProtocolError(f"clock reply {id}: time runs backwards in {sample}")
        self._newest = id, sample
        self.aligner.add(sample)
        self._measure(id, sample)

    def _measure(self, id: int, sample: Sample) -> None:
        if id >= self._burst_id:  # a sample of an earlier burst is off by the drift since then
            self._bursts[-1].take(sample)

    def _set_answered(self) -> None:
        if not self._asked.keys() - self._aside:
            self.answered.set()


def _check_times(id: int, *times_ns: int) -> None:
    """Raises ProtocolError for times beyond 63 bits, which the 64 bits of a datagram can hold."""
    if any(abs(at_ns) > NUMBER_MOST for at_ns in times_ns):
        raise ProtocolError(f"clock reply {id}: a time that does not fit into 63 bits")


class _Burst:
    """The smallest delay there and the smallest delay back, perhaps of two exchanges: load slows one way at a time."""

    def __init__(self) -> None:
        self._there_ns: int | None = None
        self._back_ns: int | None = None

    @property
    def width_ns(self) -> int | None:
        """The sum of both, in which the offset of the clocks cancels; None before the first reply."""
        return None if self._there_ns is None or self._back_ns is None else self._there_ns + self._back_ns

    def take(self, sample: Sample) -> None:
        there_ns, back_ns = sample.t2_ns - sample.t1_ns, sample.t4_ns - sample.t3_ns
        self._there_ns = there_ns if self._there_ns is None else min(self._there_ns, there_ns)
        self._back_ns = back_ns if self._back_ns is None else min(self._back_ns, back_ns)
