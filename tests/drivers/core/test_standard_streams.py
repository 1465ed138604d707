"""A program does what it does, and says how it went, whatever its standard streams are."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hwd_drivers.core.own_python import own_python

PROGRAM = """
import os, sys
from hwd_drivers.core.standard_streams import end_with_reader, run_program

def main():
    assert min(os.open("/dev/null", os.O_RDONLY), os.pipe()[0]) > 2, "it would get our words"
    if "ends" in sys.argv:
        end_with_reader()
    assert sys.stdin.read() == ""
    for number in range(int(sys.argv[1])):
        print("line", number, "→ 3.5 µm ± 2 \\u2013 Å \\udcff", flush=True)
    sys.stderr.write("warned\\n")
    with open(sys.argv[2], "w") as file:
        file.write("all of it")
    sys.exit(5)

run_program("hwd", main)
"""


def run(
    redirected: str, folder: Path, lines: str, *more: str, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    command = ["bash", "-c", f'"$@" {redirected}', "bash", sys.executable, "-P", "-c", PROGRAM]
    command += [lines, str(folder / "done"), *more]
    present = {**os.environ, **environment}
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False, env=present)


@pytest.mark.parametrize("redirected", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_of_what_is_done(redirected: str, tmp_path: Path) -> None:
    done = run(redirected, tmp_path, "3")
    assert (tmp_path / "done").read_text() == "all of it"
    assert done.returncode == 5
    said = "" if ">&-" in redirected.replace("2>&-", "") else "line 2"
    assert said in done.stdout.decode()
    assert done.stderr == (b"" if "2>&-" in redirected else b"warned\n")


def test_reader_that_goes_ends_output_without_an_end_and_changes_nothing_of_what_else_is_done(tmp_path: Path) -> None:
    done = run("| head -1; exit ${PIPESTATUS[0]}", tmp_path, "20000", "ends")
    assert done.returncode == 1
    assert b"ReaderGoneError" in done.stderr
    assert not (tmp_path / "done").exists()
    done = run("| head -1; exit ${PIPESTATUS[0]}", tmp_path, "20000")
    assert (done.returncode, done.stderr) == (5, b"warned\n")
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("redirected", ["> /dev/full", "> /dev/full 2> /dev/full"])
def test_full_disk_is_one_line_and_the_status_is_that_of_what_was_done(redirected: str, tmp_path: Path) -> None:
    done = run(redirected, tmp_path, "3")
    assert (done.returncode, (tmp_path / "done").exists()) == (5, True)
    if "2>" not in redirected:
        assert done.stderr == b"warned\nhwd: standard output: cannot be written: No space left on device\n"


@pytest.mark.parametrize("wrapped", [True, False])
def test_syntax_warnings_of_libraries_that_are_compiled_now_do_not_reach_users(wrapped: bool, tmp_path: Path) -> None:
    (tmp_path / "old_library.py").write_text("same = 1 is 1\n")
    program = "from hwd_drivers.core.standard_streams import run_program\n" if wrapped else "import old_library"
    program += "run_program('hwd', lambda: __import__('old_library'))" if wrapped else ""
    command = [sys.executable, "-P", "-c", program] if wrapped else own_python("-c", program)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONWARNINGS", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    plain = [sys.executable, "-P", "-c", "import old_library"]
    said = subprocess.run(plain, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert "SyntaxWarning" in said.stderr


def commands(*arguments: str) -> Sequence[str]:
    return [str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]]


def test_success_that_nobody_could_read_is_none_and_a_program_without_an_end_says_once_that_its_disk_is_full() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            commands("hwd", "schema", "testbed"), stdout=full, stderr=subprocess.PIPE, timeout=30, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"hwd: standard output: cannot be written: No space left on device\n")
    words = (
        "from hwd_drivers.core.errors import FailedError\n"
        "from hwd_drivers.core.standard_streams import end_with_reader, run_program\n"
        "import sys\n"
        "def main():\n"
        "    end_with_reader()\n"
        "    try:\n"
        "        print('x' * 100000, flush=True)\n"
        "    except FailedError as error:\n"
        "        print('again', flush=True)\n"
        "        sys.exit(f'hwd: {error}')\n"
        "run_program('hwd', main)\n"
    )
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [sys.executable, "-c", words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (said.returncode, said.stderr.count("\n")) == (1, 1), said.stderr
    assert "cannot be written: No space left on device" in said.stderr


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", "→ 3.5 µm ± 2 \u2013 Å \\udcff"),
        ("latin-1", "-> 3.5 µm ± 2 - Å \\udcff"),
        ("ascii", "-> 3.5 um +- 2 - A \\udcff"),
        ("cp437", "-> 3.5 µm ± 2 - Å \\udcff"),
    ],
)
def test_terminal_that_lacks_a_character_shows_another_that_can_be_read(
    encoding: str, expected: str, tmp_path: Path
) -> None:
    done = run("", tmp_path, "1", PYTHONIOENCODING=encoding)
    assert done.returncode == 5
    assert done.stdout.decode(encoding) == f"line 0 {expected}\n"


def test_words_of_the_command_line_can_be_shown_everywhere_and_its_json_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "→é.yaml"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    command = commands("hwd", "check", str(path), "--json")
    done = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert rb'"file": "%s/\u2192\u00e9.yaml"' % bytes(tmp_path) in done.stdout
    assert "->" in done.stderr.decode("ascii")
