"""The rows of `hwd history`: one long entry does not make all of them as wide."""

from hwd.cli.commands.restore import WHAT_MOST, history_row
from hwd.model.answers import HistoryEntry


def entry(what: str) -> HistoryEntry:
    return HistoryEntry(reconfiguration=None, wall_ns=10**18, ended_wall_ns=10**18, what=what, outcome="reloaded")


def test_long_text_of_a_reload_is_cut_in_its_row_and_says_where_the_rest_is() -> None:
    what = f"testbed file: {'; '.join(f'job train{number} added' for number in range(60))}"
    shown = str(history_row(entry(what))[2])
    assert shown == f"{what[:WHAT_MOST]}... (the rest: --json)"
    assert len(shown) < 130
    assert entry(what).what == what


def test_short_text_is_shown_whole() -> None:
    assert history_row(entry("testbed file: job probe added"))[2] == "testbed file: job probe added"
