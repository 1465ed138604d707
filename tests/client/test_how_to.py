"""The Python of docs/how-to/use-from-python.md, block by block, as a reader runs it."""

import re
from pathlib import Path

import pytest

from hwd.testing.lab import Lab

PAGE = Path(__file__).parents[2] / "docs/how-to/use-from-python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
SAYS = {
    "rnig": "bad input: 'rnig' is no topology",
    "follow(started.id)": "succeeded",
    "timeline(applied.id)": "<turnaround ",
    "for event in events": "timeline",
}
"""What a block prints, by something that stands in it."""


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_does_what_it_says(
    number: int, lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the lease of the test: a reader has none."""
    monkeypatch.delenv("HWD_URL", raising=False)
    monkeypatch.setenv("HWD_RUN_DIR", lab.running.environment["HWD_RUN_DIR"])
    with lab.handed_over():
        exec(compile(BLOCKS[number], f"{PAGE.name}, block {number}", "exec"), {})
    said = capsys.readouterr().out
    for part, words in SAYS.items():
        if part in BLOCKS[number]:
            assert words in said


def test_every_block_that_says_something_is_there() -> None:
    assert len(BLOCKS) >= 7
    assert all(any(part in block for block in BLOCKS) for part in SAYS)
