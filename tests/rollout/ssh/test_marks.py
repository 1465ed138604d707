"""What start files and shells print around our output, and shells that run nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.rollout.ssh.marks import MarkedStream, Marks
from hwd.rollout.ssh.session import Ssh
from hwd_drivers.core.errors import DeadlineError, FailedError

from ..conftest import opened

Make = Callable[..., Any]
RUN = 'sh -c "$SSH_ORIGINAL_COMMAND"'
START_FILES = {
    "a line": f"echo hello; {RUN}",
    "on the errors": f"echo hello >&2; {RUN}",
    "no newline": f"printf hello; printf hello >&2; {RUN}",
    "crlf": rf"printf 'hello\r\n'; {RUN}",
    "a megabyte": f"head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; {RUN}",
    "three megabytes of errors": f"head -c 3000000 /dev/zero >&2; {RUN}",
    "after it too": f"trap 'echo bye; echo bye >&2; exit 9' EXIT; {RUN}",
    "a program in the background": f"sleep 30 & {RUN}",
    "every command": f"set -x; {RUN}",
    "JSON": f"echo '{{\"held\": true}}'; {RUN}",
}
SHELLS = {"fish": "-c", "tcsh": "-c", "zsh": "-c", "dash": "-c", "busybox": "sh -c"}
"""Login shells by the option with which the server runs a command."""


def check(ssh: Ssh, folder: Path | None) -> None:
    """A script; with a folder, every way to use a session."""
    lines: list[str] = []
    ran = ssh.run("cat; echo no >&2; printf end; exit 7", within_s=30, stdin=b"a\nb\n", on_line=lines.append)
    assert (ran.status, ran.out, ran.err, lines) == (7, "a\nb\nend", "no", ["a", "b"])
    if folder is None:
        return
    ssh.put(str(folder), {"file": bytes(range(256)) * 300}, on_bytes=lambda _: None)
    assert (folder / "file").read_bytes() == bytes(range(256)) * 300
    line, end = ssh.start("""echo warning >&2; echo '{"mine": "!"}'; cat""", within_s=30, stdin=b"")
    end()
    assert line == '{"mine": "!"}'
    program = ssh.attach("read x; echo $x; echo $x >&2; exec cat", within_s=30)
    program.write(b"one\ntwo\n")
    said = b""
    while said.count(b"\n") < 3:
        said += program.read() or b"its end\n" * 3
    program.close()
    assert said == b"one\none\ntwo\n"


@pytest.mark.parametrize("name", START_FILES)
def test_what_a_start_file_prints_is_not_ours(make_sshd: Make, tmp_path: Path, name: str) -> None:
    with opened(make_sshd(f"ForceCommand={START_FILES[name]}")) as ssh:
        check(ssh, tmp_path if name in ("no newline", "three megabytes of errors", "JSON") else None)


@pytest.mark.parametrize("shell", SHELLS)
def test_login_shell_may_be_any(make_sshd: Make, tmp_path: Path, shell: str) -> None:
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"needs {shell}")
    with opened(make_sshd(f'ForceCommand=exec {program} {SHELLS[shell]} "$SSH_ORIGINAL_COMMAND"')) as ssh:
        check(ssh, None if shell == "dash" else tmp_path)


def test_shell_that_runs_nothing_and_a_start_file_that_asks_for_input_are_named(
    make_sshd: Make, tmp_path: Path
) -> None:
    for command, words in {
        "/usr/sbin/nologin": r"ended with status 1 before it ran this, and said: This account is",
        "echo gone away >&2; exit 3": r"ended with status 3 before it ran this, and said: gone away",
        "exec true": r"ended with status 0 before it ran this\. This user needs a shell",
        "kill -9 $$": r"was killed before it ran this",
    }.items():
        named = pytest.raises(FailedError, match=f"^h0: true: the login shell {words}")
        with opened(make_sshd(f"ForceCommand={command}")) as ssh, named:
            ssh.run("true", within_s=30)
    server = make_sshd(f"ForceCommand=echo Your name?; read x; echo $x > {tmp_path}/name; {RUN}")
    words = r"has not begun it within 2 s, and said: Your name\?\. Does a start file .* ask for input"
    with opened(server) as ssh, pytest.raises(DeadlineError, match=words):
        ssh.run("cat", within_s=2, stdin=b"secret")
    name = tmp_path / "name"
    assert not name.exists() or name.read_text() == "\n"


@given(pieces=st.lists(st.binary(max_size=9)), cut=st.integers(1, 40), noise=st.binary(max_size=60))
def test_ours_is_found_however_the_stream_is_cut(pieces: list[bytes], cut: int, noise: bytes) -> None:
    marks = Marks("hwd-0123456789")
    ours = b"".join(pieces) + b"hwd-01234567 89hwd-0123456789 no\nhwd-"
    text = noise + b"hwd-0123456789 begin\n" + ours + b"hwd-0123456789 3\nafter hwd-0123456789 4\n"
    stream = marks.stream()
    found = b"".join(stream.feed(text[at : at + cut]) for at in range(0, len(text), cut))
    assert (found, stream.status) == (ours, 3)


def test_the_mark_is_not_on_the_command_line_differs_by_session_and_what_is_dropped_before_it_is_no_memory(
    sshd: Any,
) -> None:
    assert "hwd-0123456789" not in Marks("hwd-0123456789").command("true")
    with opened(sshd) as one, opened(sshd) as other:
        assert one._marks.mark != other._marks.mark
    stream = MarkedStream(b"hwd-0123456789", lasting=True)
    for _ in range(100):
        assert stream.feed(bytes(10_000)) == b""
    assert len(stream.noise) <= 500
