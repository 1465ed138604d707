"""Falls counted against falls seen."""

from hwd_agents.watchers.flaps import Flaps


def test_what_was_seen_is_not_missing_and_the_first_that_was_counted_says_since_when() -> None:
    flaps = Flaps()
    flaps.count(2, 10)
    flaps.see()
    flaps.see()
    assert flaps.unseen()[0] == 0
    flaps.see()  # it fell by itself: that makes up for none that comes later
    assert flaps.unseen()[0] == 0
    flaps.count(0, 5)
    flaps.count(1, 10)
    flaps.count(2, 20)
    flaps.see()
    assert flaps.unseen() == (2, 10)
    assert flaps.unseen()[0] == 0
