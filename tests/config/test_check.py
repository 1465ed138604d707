from pathlib import Path

import pytest

from hwd.config.check import check_file
from hwd.config.equipment import DriverSpecLike
from hwd.model.testbed import Testbed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("testbed: t\nhost: {}\n", "2: host: unknown key; did you mean hosts?"),
        ("playbook: p\nsteps: []\n", "2: steps: must not be empty"),
        ("topology: t\nlinks: [h0.eth0 <-> h7.eth0]\n", "2: links[0]: h7.eth0: no such NIC port in testbed opus-testbed; did you mean h3.eth0?"),
        ("test_bed: t\n", "1: is no testbed, playbook, topology or scenario: a file names its kind at its top (did you mean testbed?)"),
        ("", "1: the file is empty"),
    ],
)  # fmt: skip
def test_kind_of_a_file_is_told_by_its_top(
    tmp_path: Path, specs: dict[str, DriverSpecLike], opus: Testbed, text: str, said: str
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert [str(problem) for problem in check_file(path, specs, testbed=opus)] == [f"{path}:{said}"]
