"""Pages of docs/ against the code and the tree. For the generated parts see tests/docs/test_generate.py."""

import re
from itertools import pairwise
from pathlib import Path

from docs.blocks.page import blocks
from hwd.config.testbed.module_types import MODULE_TYPES
from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.model.recorded_run import RunOutcome
from hwd.model.stage import StageName
from hwd.playbook.safe_state import SafeState
from hwd.report.export import COLUMNS
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED
from hwd.twin.nic_timing import NIC_TIMINGS
from hwd_drivers.core import errors
from hwd_drivers.twins.timing import SWITCH_TIMINGS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")])
READ_ON = [page for page in PAGES if page.parent.name != "decisions"] + [ROOT / "CONTRIBUTING.md"]
"""Pages that end with what to read next."""
README_MOST, WAY_MOST = 120, 5
"""Lines of the README; pages of a way in."""
LINK = re.compile(r"\]\(([^)#]+)\)")
TREE = ("docs", "examples", "playbooks", "drivers", "agents", "hwd", "tests", "bench", "dashboards")
"""Where a path in backticks begins that means a file of this tree."""


def kinds_of_error() -> list[type[errors.HwdError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HwdError)]


def rows(page: str) -> dict[str, str]:
    """Table rows of a page by each name in backticks of their first cell."""
    found = {}
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                found[name] = line
    return found


def test_every_exit_status_is_explained() -> None:
    text = (DOCS / "reference/command-line.md").read_text(encoding="utf-8")
    statuses = {0, 130} | {kind.exit_status for kind in kinds_of_error()}
    assert {int(status) for status in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == statuses


def test_every_timing_is_there() -> None:
    for page in ("reference/testbed-file.md", "explanations/facts.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert [name for name in (*SWITCH_TIMINGS, *NIC_TIMINGS) if f"`{name}`" not in text] == [], page


def test_every_module_type_is_there_with_its_powers() -> None:
    listed = rows("reference/testbed-file.md")
    for name, module in MODULE_TYPES.items():
        _, lanes, parallel, tx, rx, memory, _ = (cell.strip(" |") for cell in listed[name].split(" | "))
        assert memory.lower() == module.standard
        assert (int(lanes), parallel == "yes") == (module.lanes, module.parallel)
        assert [float(power) for power in tx.split(" to ")] == [module.tx_min_dbm, module.tx_max_dbm]
        assert [float(power) for power in rx.split(" to ")] == [module.rx_min_dbm, module.rx_max_dbm]


def test_instants_stages_and_origins_are_all_explained() -> None:
    listed = rows("explanations/timeline.md")
    text = (DOCS / "explanations/timeline.md").read_text(encoding="utf-8")
    assert {*InstantName, *StageName, *Origin} == set(listed)
    assert all(f"**{knowledge.replace('-', ' ')}**" in text for knowledge in Knowledge)


def test_outcomes_and_safe_states_are_all_explained() -> None:
    listed = rows("reference/playbooks.md")
    assert {*RunOutcome, *SafeState} <= set(listed)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            path, _, heading = target.partition("#")
            there = (page.parent / path) if path else page
            assert there.exists(), f"{page}: {target}"
            if heading:
                headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                assert heading in {one.lower().replace(" ", "-") for one in headings}, f"{page}: {target}"


def last_paragraph(page: Path) -> str:
    return page.read_text(encoding="utf-8").rstrip("\n").rpartition("\n\n")[2]


def linked(page: Path, text: str) -> list[Path]:
    """The pages of this tree that a part of a page links to."""
    return [(page.parent / target).resolve() for target in LINK.findall(text) if "://" not in target]


def test_each_page_ends_with_what_to_read_next() -> None:
    ends = {page: last_paragraph(page) for page in READ_ON}
    assert [page for page, end in ends.items() if not end.startswith("Next: ") or not linked(page, end)] == []
    assert [page for page, end in ends.items() if page in linked(page, end)] == [], "a page is not its own next one"


def ways_of_readme() -> dict[str, list[Path]]:
    page = ROOT / "README.md"
    table = page.read_text(encoding="utf-8").partition("## Three ways in\n")[2].partition("\n## ")[0]
    return {name: linked(page, row) for name, row in re.findall(r"^\| \*\*(.+?)\*\* \|(.*)$", table, re.MULTILINE)}


def ways_of_docs() -> dict[str, list[Path]]:
    page = DOCS / "README.md"
    part = page.read_text(encoding="utf-8").partition("## Reference\n")[0]
    found = re.findall(r"^\*\*([^*]+)\*\*\n\n((?:\d\. .*\n)+)", part, re.MULTILINE)
    return {name[0].lower() + name[1:]: linked(page, pages) for name, pages in found}


def test_three_ways_in_lead_from_page_to_page() -> None:
    ways = ways_of_docs()
    assert ways == ways_of_readme()
    assert list(ways) == ["run a rack", "measure and compare", "add a device, a plane, a page"]
    for name, pages in ways.items():
        assert 2 <= len(set(pages)) == len(pages) <= WAY_MOST, name
        for page, following in pairwise(pages):
            assert following in linked(page, last_paragraph(page)), (name, page)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_MOST


def test_each_file_of_the_examples_is_listed_there() -> None:
    examples = ROOT / "examples"
    listed = re.findall(r"^\| `([^`]+)` \|", (examples / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    there = [path.relative_to(examples) for path in examples.rglob("*") if path.is_file()]
    made = ("__pycache__", "README.md")
    assert sorted(listed) == sorted(str(path) for path in there if not any(name in path.parts for name in made))


def test_tutorials_name_files_as_they_are_or_as_their_reader_makes_them() -> None:
    name = re.compile(r"(?<![\w/.$*-])([\w./-]+\.(?:yaml|py|toml|json))\b(?!\]\()")
    texts = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("tutorials/*.md")}
    made = {block.file for text in texts.values() for block in blocks(text)}
    named = {(page, file) for page, text in texts.items() for file in name.findall(text)}
    assert [(page, file) for page, file in named if file not in made and not (ROOT / file).exists()] == []


def test_files_that_a_page_names_are_there() -> None:
    of_tree = re.compile(rf"(?<![\w/.])(?!hwd/1/)((?:{'|'.join(TREE)})/[\w./-]*\w)")
    named = [(page, name) for page in PAGES for name in of_tree.findall(page.read_text(encoding="utf-8"))]
    assert [(page, name) for page, name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    told = [str(page.relative_to(DOCS)) for page in DOCS.glob("*/*.md") if page.parent.name != "decisions"]
    assert [page for page in told if f"({page})" not in index] == []


def test_exports_and_reports_are_told_of_with_their_columns_and_limits() -> None:
    row = r"^\| `(\w+)` \| (\w+)(, may be empty)? \| (.*) \|$"
    listed = re.findall(row, (DOCS / "how-to/export.md").read_text(encoding="utf-8"), re.MULTILINE)
    empty = {True: ", may be empty", False: ""}
    assert listed == [(one.name, one.type.__name__, empty[one.optional], one.means) for one in COLUMNS]
    limit = f"None below {RECONFIGURATIONS_NEEDED} reconfigurations"
    assert limit in (DOCS / "how-to/make-a-report.md").read_text(encoding="utf-8")
