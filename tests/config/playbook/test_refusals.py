"""All that is said of playbooks with mistakes: `refusals.txt` has the mistakes, and each finding under its own."""

from pathlib import Path

import yaml

from hwd.config.playbook.expression import Value, substitute
from hwd.config.playbook.playbook import load_playbook
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

from ...answers import check_answers

HEAD = "playbook: p\nparameters: {n: 3, names: [a, b], limit_s: 2.5}\nsteps:\n"
PARAMETERS: dict[str, Value] = {"n": 10, "s": 1.5, "host": "h0", "live": True, "sizes": (1, 4, 16)}


def test_every_mistake_is_told_with_its_line_and_its_place(tmp_path: Path, opus: Testbed) -> None:
    def said(text: str, **overrides: str) -> list[str]:
        (tmp_path / "p.yaml").write_text(f"{text}\n")
        loaded = load_playbook(tmp_path / "p.yaml", overrides, testbed=opus)
        assert loaded.value is None, text
        return [str(problem).replace(f"{tmp_path}/", "").removeprefix("p.yaml:") for problem in loaded.problems]

    def of_branches(text: str) -> list[str]:
        left, right = text.split("\n")
        return said(f"{HEAD}  - parallel:\n      left:\n        - {left}\n      right:\n        - {right}")

    def of_parameter(text: str) -> list[str]:
        name, value = text.split("=")
        return said("playbook: p\nparameters: {n: 1, live: true}\nsteps: [note: x]", **{name: value})

    def of_files(text: str) -> list[str]:
        (tmp_path / "a.yaml").unlink(missing_ok=True)
        for name, content in yaml.safe_load(text).items():
            (tmp_path / name).write_text(content)
        return said(f"{HEAD}  - include: {{file: a.yaml}}")

    def of_text(text: str) -> str:
        try:
            return f"taken: {substitute(text, PARAMETERS)!r}"
        except ConfigError as error:
            return str(error)

    check_answers(
        Path(__file__).with_name("refusals.txt"),
        {
            "steps": lambda text: said(HEAD + text),
            "steps of a branch each, left and right": of_branches,
            "a whole playbook": said,
            "parameters, beside n: 1 and live: true": of_parameter,
            "files, of which a.yaml is included": of_files,
            "text with {{ }}": of_text,
        },
    )
