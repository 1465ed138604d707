"""When more requests of a burst would not improve the alignment."""

from hwd.bus.clocks.clock_exchange import ClockExchange, Way
from hwd_agents.wire import ClockReply

US, MS = 1_000, 1_000_000
OFFSET_NS = 5_000 * MS


class Asker:
    """Sends requests and answers them, with stated delays there and back.

    Each answer but the first tells when the one before it had left.
    """

    def __init__(self, *, drift_ppm: int = 0) -> None:
        self.exchange = ClockExchange("boot")
        self._now_ns = 0
        self._drift_ppm = drift_ppm
        self._before: tuple[int, int] | None = None

    def ask(self, there_us: int) -> ClockReply:
        """A request and its answer, which is still on its way."""
        t1_ns = self._now_ns
        t2_ns = t1_ns + there_us * US + OFFSET_NS + t1_ns * self._drift_ppm // 1_000_000
        id = self.exchange.ask(t1_ns)
        return ClockReply(boot="boot", seq=id, id=id, t1_ns=t1_ns, t2_ns=t2_ns, t3_ns=t2_ns)

    def burst(self, *ways_us: tuple[int, int], overdue: ClockReply | None = None) -> bool:
        """Whether it was quick, after these. `overdue` comes first, and was asked for before."""
        self._now_ns += 3_000 * MS
        self.exchange.begin_burst()
        if overdue is not None:
            assert self.exchange.take(overdue, self._now_ns)
            assert not self.exchange.has_reply
        for there_us, back_us in ways_us:
            t1_ns, self._now_ns = self._now_ns, self._now_ns + 7 * MS
            offset_ns = OFFSET_NS + t1_ns * self._drift_ppm // 1_000_000
            t2_ns = t1_ns + there_us * US + offset_ns
            id = self.exchange.ask(t1_ns)
            if self._before is not None:
                self.exchange.correct_sent(*self._before)
            reply = ClockReply(boot="boot", seq=id, id=id, t1_ns=t1_ns, t2_ns=t2_ns, t3_ns=t2_ns + 30 * US)
            assert self.exchange.take(reply, t2_ns + 30 * US - offset_ns + back_us * US)
            self._before = id, t2_ns + 30 * US + 100
        return self.exchange.quick


def test_one_way_may_be_quick_in_another_exchange_and_a_burst_that_was_slow_one_way_or_had_no_answer_is_not() -> None:
    asker = Asker()
    assert not asker.exchange.quick
    assert asker.burst((150, 160))
    assert asker.burst((155, 900), (800, 165))
    assert not asker.burst((150, 270), (150, 265), (400, 268))
    assert not asker.burst()


def test_by_udp_what_is_a_few_microseconds_slower_than_the_best_is_quick() -> None:
    asker = Asker()
    asker.exchange.begin_way(Way.UDP)
    asker.burst((1, 1))
    assert asker.burst((5, 6))
    assert not asker.burst((8, 9))


def test_a_network_that_became_slower_is_quick_again_when_the_quicker_bursts_are_forgotten() -> None:
    asker = Asker()
    asker.burst((150, 160))
    slower = [asker.burst((300, 310)) for _ in range(20)]
    assert not any(slower[:19])
    assert slower[19]


def test_clocks_that_drift_apart_between_bursts_make_none_slow() -> None:
    for drift_ppm in (-50, 50):
        asker = Asker(drift_ppm=drift_ppm)
        asker.exchange.begin_way(Way.UDP)
        assert all(asker.burst((3, 3), (2, 3), (3, 2)) for _ in range(30))
        assert not asker.burst((30, 3), (20, 3))


def test_an_answer_that_comes_in_the_next_burst_does_not_count_for_that() -> None:
    asker = Asker(drift_ppm=50)
    assert asker.burst((300, 300))
    overdue = asker.ask(300)
    assert asker.burst((300, 300), overdue=overdue)
    assert asker.burst((300, 300)), "the one before was taken for a quicker one than any can be"
