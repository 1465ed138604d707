"""What agents and devices have said reaches a terminal as text, and programs as it was."""

import ast
import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hwd.cli.output import Output, StyledText, coloured, words
from hwd.cli.progress import Progress
from hwd.daemon.process_main import log_to_stderr

ROOT = Path(__file__).parents[2]
EVIL = "\x1b[2J\x1b]8;;http://evil\x07down\r\nhost h1 up\x9b1m\u202e[red]x[/red]"
SHOWN = r"\x1b[2J\x1b]8;;http://evil\x07down\r\nhost h1 up\x9b1m\u202e[red]x[/red]"


def test_a_line_a_table_and_a_document_of_a_stranger_show_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(json=False)
    output.say(f"h0: {EVIL}")
    output.say("run r1 ", coloured(EVIL), f": {EVIL}")
    output.table(("host", "state"), [("h0", EVIL), (EVIL, None)])
    output.say(words({"why": EVIL, "count": 3}))
    output.note(EVIL)
    output.remark(f"one: {EVIL.replace(chr(10), '')}\ntwo")
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"h0: {SHOWN}",
        f"run r1 {SHOWN}: {SHOWN}",
        f"host{' ' * (len(SHOWN) - 4)}  state",
        f"h0{' ' * (len(SHOWN) - 2)}  {SHOWN}",
        SHOWN,
        f"why={SHOWN} count=3",
    ]
    assert err.splitlines() == [SHOWN, f"one: {SHOWN.replace(chr(92) + 'n', '')}", "two"]


def test_only_our_own_colours_are_written_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Output(json=False).say("h0 ", StyledText("down", "red"), f" \x1b[32mup\x1b[0m {coloured('failed')}")
    assert capsys.readouterr().out == "h0 \x1b[31mdown\x1b[0m \\x1b[32mup\\x1b[0m failed\n"


def test_json_has_a_strangers_text_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(json=True)
    output.data({"why": EVIL})
    output.line({"why": EVIL})
    output.say(EVIL)
    out, err = capsys.readouterr()
    decoder, found, rest = json.JSONDecoder(), list[Any](), out.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    assert found == [{"why": EVIL}] * 2
    assert err == f"{SHOWN}\n"


def test_a_progress_bar_takes_no_markup_and_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("hwd.cli.progress.Console", lambda *, stderr: Console(file=stream, width=300))
    with Progress(3) as bar:
        bar.say(EVIL)
    assert SHOWN in stream.getvalue().splitlines()


def test_the_log_of_a_daemon_has_one_line_for_what_an_agent_said(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log_to_stderr(verbose=False)
        logging.getLogger("hwd.bus.host_agent").warning("%s: agent down: %s", "h0", EVIL)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"WARNING h0: agent down: {SHOWN}")


def test_what_is_said_in_one_line_has_no_line_break_of_ours() -> None:
    """It would be shown as two characters, as that of a stranger is: `Output.block` and `remark` take lines, a log
    takes one.
    """
    one_line = {"say", "note", "debug", "info", "warning", "error", "exception", "log"}
    broken = [
        f"{path.relative_to(ROOT)}:{part.lineno}"
        for folder in ("hwd", "agents/hwd_agents", "drivers/hwd_drivers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in one_line
        for argument in call.args
        for part in (argument.values if isinstance(argument, ast.JoinedStr) else [argument])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and "\n" in part.value
    ]
    assert broken == []
