from hwd.bus.rejected_messages import OTHERS, STRANGERS_MOST, TEXT_MOST, RejectedMessages

S = 1_000_000_000


def test_first_is_told_at_once_and_a_flood_once_a_second() -> None:
    told: list[tuple[str, str, str, int]] = []
    garbage = RejectedMessages(lambda *each: told.append(each), ("h0",))
    for number in range(1000):
        garbage.note("h0", "t", f"why {number}", 5 * S + number)
    assert told == [("h0", "t", "why 0", 1)]
    garbage.flush(5 * S + 2000)
    assert len(told) == 1
    garbage.flush(6 * S)
    garbage.flush(9 * S)
    assert told[1:] == [("h0", "t", "why 999", 999)]
    assert garbage.total == 1000


def test_made_up_names_count_together_and_long_texts_are_cut() -> None:
    told: list[tuple[str, str, str, int]] = []
    garbage = RejectedMessages(lambda *each: told.append(each), ("h0",))
    for number in range(2 * STRANGERS_MOST):
        garbage.note(f"made-up-{number}", "t" * 9999, "why" * 9999, 5 * S)
    garbage.flush(7 * S)
    assert len(told) == STRANGERS_MOST + 2
    assert sum(count for *_, count in told) == 2 * STRANGERS_MOST
    assert told[-1][0] == OTHERS
    assert max(len(text) for host, topic, why, _ in told for text in (host, topic, why)) < TEXT_MOST + 50
