"""First sentences of docstrings, and names, that `make check-words` takes and refuses."""

from pathlib import Path

from docs.generate.words import fault, findings, first_sentence

from ..answers import check_answers


def test_a_first_sentence_has_a_noun_and_a_verb_and_one_of_an_attribute_may_begin_with_a_preposition_but_of() -> None:
    answers = {
        "of a class": lambda sentence: fault(sentence, noun=True) or "taken",
        "of a function": lambda sentence: fault(sentence, action=True) or "taken",
        "of an attribute": lambda sentence: fault(sentence, attribute=True) or "taken",
    }
    check_answers(Path(__file__).with_name("words.txt"), answers)


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
