"""What came of a burst of reads."""

from hwd_agents.watchers.burst import Burst

MS = 1_000_000


def test_distance_and_length_of_reads_are_means_of_what_was() -> None:
    burst = Burst()
    for at_ms, read_ms in ((10, 2), (15, 2), (27, 8), (30, 0)):
        burst.look((at_ms - read_ms) * MS, at_ms * MS)
    assert (burst.every_s, burst.read_s) == (0.006667, 0.003)


def test_of_less_than_two_reads_nothing_is_known() -> None:
    burst = Burst()
    assert (burst.every_s, burst.read_s) == (None, None)
    burst.look(0, 2 * MS)
    assert (burst.every_s, burst.read_s) == (None, None)
