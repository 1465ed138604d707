"""What anybody has said stands in a page as text."""

from hwd.report.page.markup import escape


def test_markup_and_what_turns_the_direction_of_text_are_shown() -> None:
    assert escape("<b>\u202egpj\x1b[2J&\"'") == r"&lt;b&gt;\u202egpj\x1b[2J&amp;&quot;&#x27;"


def test_lines_and_tabs_of_a_file_stay() -> None:
    assert escape("a:\n\tb\n") == "a:\n\tb\n"
