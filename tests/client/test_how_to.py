"""The Python of docs/how-to/use-from-python.md and of the README, block by block, as a reader runs it."""

import re
from pathlib import Path

import pytest

from hwd.testing.lab import Lab
from hwd.timeline import StageName

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/how-to/use-from-python.md", ROOT / "README.md")
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]
SAYS = {
    "rnig": "bad input: 'rnig' is no topology",
    "follow(started.id)": "succeeded",
    "timeline(applied.id).turnaround_s": "<turnaround ",
    "for event in events": "timeline",
}
"""What a block prints, by something that stands in it."""
SIX_LINES = [block for block in BLOCKS if ".table())" in block]
"""The controller in six lines: in a coroutine, and for a program that waits."""


@pytest.fixture
def reader(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The rack, found as a reader finds it."""
    monkeypatch.delenv("HWD_URL", raising=False)
    monkeypatch.setenv("HWD_RUN_DIR", lab.running.environment["HWD_RUN_DIR"])
    return lab


def run(block: str, lab: Lab) -> None:
    """Without the lease of the test: a reader has none."""
    with lab.handed_over():
        exec(compile(block, f"block {BLOCKS.index(block)}", "exec"), {})


@pytest.mark.parametrize("number", [number for number, block in enumerate(BLOCKS) if block not in SIX_LINES])
def test_a_block_does_what_it_says(number: int, reader: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    run(BLOCKS[number], reader)
    said = capsys.readouterr().out
    for part, words in SAYS.items():
        if part in BLOCKS[number]:
            assert words in said


def test_every_block_that_says_something_is_there() -> None:
    assert len(BLOCKS) >= 7
    assert all(any(part in block for block in BLOCKS) for part in SAYS)


@pytest.mark.parametrize("block", SIX_LINES, ids=["coroutine", "waits"])
def test_six_lines_print_a_timeline_whose_links_are_ready(
    block: str, reader: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    leases = {lease.id for lease in reader.client.leases()} - {reader.lease.id}
    run(block, reader)
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["link", *StageName]
    links = {row.split()[0] for row in rows}
    assert links == {link for link, ready in reader.status().links.items() if ready}
    assert len(links) == 2
    for row in rows:
        stages = dict(zip(StageName, re.split(r" {2,}", row)[1:], strict=True))
        for stage in (StageName.READY, StageName.TURNAROUND):
            assert re.match(r"not resolved|\d", stages[stage]), row
    assert {lease.id for lease in reader.client.leases()} - {reader.lease.id} == leases, "the lease is released"


def test_six_lines_are_six() -> None:
    asynchronous, waiting = SIX_LINES
    assert len([line for line in waiting.splitlines() if line]) == 6
    coroutine = re.search(r"^async def main.*\n((?: .*\n)+)", asynchronous, re.MULTILINE)
    assert coroutine is not None
    assert len(coroutine[0].splitlines()) == 6
