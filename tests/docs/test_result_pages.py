"""The pages on reports and exports: what they list, and what they let one do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hwd.report.export import COLUMNS
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (HOW_TO / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_columns_are_listed_with_what_they_mean() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| (\w+)(, may be empty)? \| (.*) \|$", (HOW_TO / "export.md").read_text(), re.MULTILINE
    )
    assert listed == [
        (column.name, column.type.__name__, ", may be empty" if column.optional else "", column.means)
        for column in COLUMNS
    ]


def test_limits_are_those_of_the_code() -> None:
    assert f"None below {RECONFIGURATIONS_NEEDED} reconfigurations" in (HOW_TO / "make-a-report.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("page", "files"),
    [
        (
            "make-a-report.md",
            ("report.html", "both.html", "figures.pdf", "narrow.pdf", "figures/comparison.svg", "comparison.json"),
        ),
        ("export.md", ("kept.jsonl", "stages.csv", "stages.parquet", "run.pftrace")),
    ],
)
def test_commands_of_the_page_do_what_it_says(page: str, files: tuple[str, ...], tmp_path: Path) -> None:
    for folder in ("examples", "playbooks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "set -eu -o pipefail\n" + "".join(blocks(page, "sh"))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for file in files:
        assert (tmp_path / file).stat().st_size > 500, file
    for block in blocks(page, "python"):
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout
