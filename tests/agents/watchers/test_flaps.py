"""Falls counted against falls seen."""

from hwd_agents.watchers.flaps import Flaps


def test_what_was_seen_is_no_flap_that_is_missing() -> None:
    flaps = Flaps()
    flaps.count(2, 10)
    flaps.see()
    flaps.see()
    assert flaps.unseen()[0] == 0


def test_a_port_that_fell_by_itself_makes_up_for_none_that_comes_later() -> None:
    flaps = Flaps()
    flaps.see()
    assert flaps.unseen()[0] == 0
    flaps.count(1, 10)
    assert flaps.unseen() == (1, 10)


def test_the_first_that_was_counted_says_since_when() -> None:
    flaps = Flaps()
    flaps.count(0, 5)
    flaps.count(1, 10)
    flaps.count(2, 20)
    flaps.see()
    assert flaps.unseen() == (2, 10)
    assert flaps.unseen()[0] == 0
