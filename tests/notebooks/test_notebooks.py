"""The notebooks of docs/, run as a reader runs them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
WITHIN_S = 50


def cells_of(path: Path) -> Sequence[NotebookNode]:
    cells: Sequence[NotebookNode] = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
    return cells


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    for cell in cells_of(path):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_its_first_cell_to_its_last(path: Path, tmp_path: Path) -> None:
    """By the command of docs/notebooks/README.md."""
    places = {name: str(tmp_path / name) for name in ("HWD_RUN_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    told = subprocess.run(
        [Path(sys.executable).with_name("jupyter"), "execute", path, f"--output={tmp_path / path.stem}"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, **places, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert told.returncode == 0, told.stderr
    cells = [cell for cell in cells_of(tmp_path / path.name) if cell.cell_type == "code"]
    shown = [output["data"].get("text/html", "") for cell in cells for output in cell.outputs if "data" in output]
    assert any("<svg" in html and "turnaround" in html for html in shown)
    assert any("Cliff" in html for html in shown)
    assert "mfabric fig. 10" in "".join(shown)
    results = [output["data"]["text/plain"] for cell in cells for output in cell.outputs if "data" in output]
    assert (
        "('two-hosts', 'two-hosts')" in results
    )  # of a blocking call inside of the notebook's loop, and an awaited one
    finals = [
        output["data"]["text/plain"]
        for cell in cells
        for output in cell.outputs
        if output.output_type == "display_data"
    ]
    assert len(finals) == 2
    assert all(final.endswith(" succeeded") for final in finals)
