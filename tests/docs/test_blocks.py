"""Every command that README and docs/ show, done as a reader would: in order, in one home, on a live twin rack."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from docs.blocks.commands import commands
from docs.blocks.page import Block, blocks
from docs.blocks.runner import PageError, run_page
from hwd.cli.run_command import run

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
QUICK = ("docs/how-to/serve-a-twin.md",)
"""These take some seconds each; the others are slow: test_pages.py and test_how_to_pages.py."""


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


BLOCKS: list[tuple[Path, Block]] = [(page, block) for page in PAGES for block in blocks(page.read_text("utf-8"))]
RUNNING = [
    page for page in PAGES if re.search(r"^ *```(sh|console|python)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_no_command_stands_where_the_runner_does_not_look() -> None:
    """A block has a kind, a command is whole, and what only looks like text holds no command."""
    for page, block in BLOCKS:
        if block.runs and block.kind != "python":
            assert list(commands(block)), (page, block)
        if block.kind == "text":
            assert not re.search(r"^(\$ |hwd |make |curl |pip )", block.text, re.MULTILINE), (page, block)
        if block.kind == "yaml":
            yaml.safe_load(block.text)


def test_no_token_stands_on_a_command_line() -> None:
    """Every user of the machine can read it there while the command runs."""
    token = re.compile(r"\$\(hwd token|`hwd token`\"|\$HWD_TOKEN\b")
    assert [page for page in (*PAGES, ROOT / "tests/cli/help.txt") if token.search(page.read_text("utf-8"))] == []


def test_files_that_pages_show_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check whole testbeds, playbooks and scenarios.

    Playbooks and scenarios are checked against the testbed of the pages, except a scenario of a twin alone.
    """
    testbed = str(ROOT / "examples/opus-testbed.yaml")
    for page, block in BLOCKS:
        file = tmp_path / f"{page.stem}-line-{block.line}.yaml"
        against = None
        if block.kind == "yaml" and "\nfibres:" in block.text:
            against = []
        elif block.kind == "yaml" and re.search("^scenario: ", block.text, re.MULTILINE):
            against = [testbed] if "switch: " in block.text else []
        elif block.kind == "yaml" and re.search("^playbook: ", block.text, re.MULTILINE):
            against = [testbed]
        if against is not None:
            file.write_text(block.text, encoding="utf-8")
            assert run(("check", *against, str(file))) == 0, (page, capsys.readouterr().err)


@pytest.mark.parametrize("page", [page for page in RUNNING if named(page) in QUICK], ids=named)
async def test_a_quick_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    await run_page(page, folder=tmp_path)


async def outcome(tmp_path: Path, text: str) -> str:
    """What the runner has against a page; empty where it holds."""
    folder = tmp_path / "home"
    folder.mkdir()
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    try:
        async with asyncio.timeout(50):
            await run_page(page, folder=folder)
    except PageError as error:
        return str(error)
    return ""


async def test_a_page_that_holds_is_let_through(tmp_path: Path) -> None:
    text = """
`rack.yaml`, in the folder of the checkout:

```yaml
testbed: empty
```

```sh
export WHERE=rack.yaml
```

```console
$ hwd check $WHERE
1 file: 0 errors, 0 warnings
$ ls missing.yaml
...
$ echo $?
2
```

```python
import pathlib
there = pathlib.Path("rack.yaml").read_text()
```

```python
assert there == "testbed: empty\\n"
```

*Not run in the tests: there is no such program.*

```sh
switch-off-the-sun
```
"""
    assert await outcome(tmp_path, text) == ""


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```sh\nfalse\n```", "exit status 1, not 0"),
        ("```sh\ntrue # exit status 3\n```", "exit status 0, not 3"),
        ("```console\n$ echo one\ntwo\n```", "shown: two"),
        ("```console\n$ echo one\n```", "shown: nothing more"),
        ("```console\n$ printf 'a\\nb\\n'\na\nb\nc\n```", "seen:  nothing more"),
        ("```python\nassert 1 == 2\n```", "AssertionError"),
        ("```console\necho one\n```", "begins with a command"),
        ("```sh\nif true; then\n```", "not a whole command"),
        ("```\nls\n```", "a block of kind ''"),
        ("```sh\nls\n", "has no end"),
    ],
)
async def test_a_page_that_does_not_hold_is_refused(tmp_path: Path, block: str, why: str) -> None:
    try:
        said = await outcome(tmp_path, f"# A page\n\n{block}\n")
    except ValueError as error:
        said = str(error)
    assert why in said
