"""First sentences of docstrings, and names, that `make check-words` takes and refuses."""

from pathlib import Path

import pytest

from docs.generate.words import fault, findings, first_sentence

FUNCTIONS = {
    "The pages whose generated parts differ from the code.": None,
    "Whether the host is known to be up.": None,
    "Each agent reads the messages of the version before.": None,
    "`text`: what a person wrote.": None,
    "By the names of their switches.": '"By"',
    "The same for a file that was read already.": '"The"',
    "Those that have not ended.": '"Those"',
    "Each, in turn.": '"Each"',
    "None where nothing moves.": '"None"',
    "Why it cannot be reached.": '"it"',
    "Connect.": "one word",
    "No expiry.": "no verb",
}


@pytest.mark.parametrize(("sentence", "why"), FUNCTIONS.items())
def test_a_first_sentence_has_a_noun_and_a_verb(sentence: str, why: str | None) -> None:
    found = fault(sentence, action=True)
    assert found is None if why is None else why in str(found)


def test_a_docstring_of_an_attribute_may_begin_with_a_preposition_but_of() -> None:
    assert fault("Between two looks.", attribute=True) is None
    assert fault("Of one host.", attribute=True) == 'begins with "Of" and has no noun before it'


def test_a_module_is_reported_by_its_lines(tmp_path: Path) -> None:
    module = tmp_path / "played_anew.py"
    module.write_text(
        '"""Of a job.\n\nMore."""\n\nX = 1\n"""It is one."""\n\n\ndef was_told(n: int) -> None:\n    """Wait."""\n'
        '\n\n@program.command()\ndef look() -> None:\n    """With typer."""\n',
        encoding="utf-8",
    )
    assert [(one.line, one.what) for one in findings(module)] == [
        (1, "the module played_anew"),
        (1, "Of a job."),
        (6, "It is one."),
        (9, "the name was_told"),
        (10, "Wait."),
    ]
    assert first_sentence("It is\n    one. Two.") == "It is one."
