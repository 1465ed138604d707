"""`hwd demand` against a daemon: adds, lists, shows and removes, and says what is wrong with a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwd.cli.commands.demands import ENTRIES_SHOWN, _show
from hwd.cli.output import Output
from hwd.cli.run_command import run
from hwd.model.demand import FILE_BYTES_MAX, DemandMatrix
from hwd.testing.running_lab import RunningLab

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(hwd_running: RunningLab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A command for the daemon of the session: its exit status, and what it says on stdout and stderr."""
    for key, value in hwd_running.environment.items():
        monkeypatch.setenv(key, value)

    def said(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(("demand", *words))
        out, err = capsys.readouterr()
        return status, out, err

    return said


def test_demand_of_experts_goes_in_is_listed_shown_and_removed(call: Call, tmp_path: Path) -> None:
    gates = np.zeros((2, 1, 4, 4))
    gates[1, 0, 0, 3] = 2.5e6
    np.savez_compressed(tmp_path / "gates.npz", demand=gates)
    terms = ("--hosts", "h0, h1", "--experts-per-gpu", "1", "--gpus-per-server", "2")
    status, out, _ = call("add", "moe", str(tmp_path / "gates.npz"), *terms)
    assert status == 0
    assert ": 2 matrices of 2 x 2 hosts of 4 experts, 2.5e+06 bytes added\n" in out
    status, out, err = call("add", "moe", str(tmp_path / "gates.npz"), *terms)
    assert (status, "there is one of that name. Choose another, or use --replace" in err) == (3, True)
    status, out, err = call("add", "moe", str(tmp_path / "gates.npz"), *terms, "--replace", "--json")
    added = json.loads(out)
    assert (status, added["layers"], added["experts"]) == (0, [0, 1], 4)

    status, out, _ = call("list")
    heading, row = out.splitlines()
    assert heading.split() == [
        "demand",
        "hosts",
        "experts",
        "layers",
        "micro-batches",
        "bytes",
        "stored",
        "added",
        "by",
    ]
    assert row.split()[:6] == ["moe", "2", "4", "2", "1", "2.5e+06"]
    assert json.loads(call("list", "--json")[1]) == [added]

    status, out, _ = call("show", "moe", "--layer", "1")
    assert out.splitlines() == [
        "demand moe, layer 1, micro-batch 0: 2 hosts, 2.5e+06 bytes",
        "from  h0  h1",
        "h0    0   2.5e+06",
        "h1    0   0",
    ]
    assert json.loads(call("show", "moe", "--layer", "1", "--json")[1])["bytes"] == [[0, 2.5e6], [0, 0]]
    status, _, err = call("show", "moe", "--microbatch", "3")
    assert (status, "micro-batch 3: not stored; it has layers 0 to 1 and micro-batches 0" in err) == (2, True)

    status, out, _ = call("links", "moe", "--layer", "1", "--degree", "1", "--rate", "1000")
    assert status == 0
    assert out.splitlines() == [
        "demand moe, layer 1, micro-batch 0: 2 hosts, 2.5e+06 bytes: 1 link: an all-to-all takes 20 ms; "
        "the best links take 20 ms; nothing takes less than 10 ms",
        "host  host  links",
        "h0    h1    1",
    ]
    found = json.loads(call("links", "moe", "--layer", "1", "--json")[1])
    assert (found["links"], found["best_s"]) == (
        [{"one": "h0", "other": "h1", "count": 3}],
        pytest.approx(0.0025 / 37.5),
    )
    status, _, err = call("links", "moe", "--variant", "jump")
    assert (status, "--variant jump: is none of skip, stop" in err) == (2, True)

    status, out, _ = call("remove", "moe", "--json")
    assert (status, json.loads(out)) == (0, added)
    assert call("remove", "moe")[0] == 2
    assert call("list")[1] == "no stored demand. `hwd demand add NAME FILE` adds one\n"


def test_file_that_is_wrong_or_cannot_be_read_is_bad_input(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_bytes(b"h0,h1\n0,x\n1,0\n")
    (tmp_path / "long.csv").write_bytes(b"\0" * (FILE_BYTES_MAX + 1))
    for name, why in {
        "text.csv": "CSV, line 2, column 2: 'x' is no number of bytes",
        "long.csv": f"over the {FILE_BYTES_MAX} bytes allowed for such a file; add it in parts, or as NPZ",
        "none.csv": "none.csv: cannot be read: No such file or directory",
        "": "Is a directory",
    }.items():
        status, _, err = call("add", "moe", str(tmp_path / name))
        assert (status, why in err) == (2, True), err


def test_of_many_hosts_the_largest_entries_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = [f"h{number}" for number in range(20)]
    rows: list[Any] = [[float(20 * row + column) for column in range(20)] for row in range(20)]
    _show(Output(json=False), DemandMatrix(name="moe", layer=0, microbatch=0, hosts=hosts, bytes=rows))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["from", "to", "bytes"],
        ["h19", "h19", "399"],
        ["h19", "h18", "398"],
    ]
    assert len(lines) == 1 + ENTRIES_SHOWN
