"""CommandLine: the command line of a SONiC optical switch's twin: its shell, and the output of its commands."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, PortOverride, PortSide
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.help import help_page
from hwd_drivers.families.sonic.protocol import Mode
from hwd_drivers.families.sonic.unit import CommandRefused, Unit

LINE_LIMIT: Final = 128 * 1024
"""Longest line: a list of 4096 crossconnects is half of it."""
SOFTWARE: Final = "SONiC.202511-twin"
NOT_FOUND: Final = 127
MISUSED: Final = 2
"""Exit statuses of a shell and of SONiC's commands for unknown commands and arguments."""
JOINED: Final = ["2", ">&", "1"]
"""Words of a command that redirect error output to the output."""
LOSS_AT: Final = ("228.85", "28")
"""Frequency (THz) and temperature (C) of the table of losses, as in the design's example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOutput:
    """Output of a line, its exit status, and the seconds until it ends."""

    out: str = ""
    err: str = ""
    status: int = 0
    after_s: float = 0.0


class CommandLine:
    """Runs lines on one unit: commands joined by `;` and `&&`, with or without sudo and `2>&1`. `$?` works."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        shows = {
            ("show", "ocs", "port-mapping"): self._show_port_mapping,
            ("show", "ocs", "cross-connect", "config"): self._show_config,
            ("show", "ocs", "cross-connect", "status"): self._show_status,
            ("show", "ocs", "port", "config"): self._show_port_config,
            ("show", "ocs", "port", "status"): self._show_port_status,
            ("show", "ocs", "factory-insertion-loss"): self._show_losses,
            ("show", "version"): self._show_version,
        }
        self._commands: dict[tuple[str, ...], Callable[[Sequence[str]], LineOutput]] = {
            **{path: partial(_show, show) for path, show in shows.items()},
            ("config", "ocs", "cross-connect", "add"): self._add,
            ("config", "ocs", "cross-connect", "delete"): self._delete,
            ("config", "ocs", "port", "state"): self._set_state,
            ("config", "ocs", "port", "label"): self._set_label,
            ("echo",): lambda words: LineOutput(out=" ".join(words) + "\n"),
            ("true",): lambda words: LineOutput(),
        }

    def run(self, line: str, *, status: int = 0) -> LineOutput:
        """Run a line after one with exit status `status`; the result has the status of the last command that ran."""
        try:
            steps = words_of(line)
        except ValueError as error:
            return LineOutput(err=f"bash: syntax error: {error}\n", status=MISUSED)
        out, err, after_s = "", "", 0.0
        for joint, words in steps:
            if joint == "&&" and status != 0:
                continue
            joined = words[-len(JOINED) :] == JOINED
            words = words[: -len(JOINED)] if joined else words
            if not words:
                continue
            printed = self._run_one([str(status) if word == "$?" else word for word in words])
            out += printed.out + (printed.err if joined else "")
            err, status = err + ("" if joined else printed.err), printed.status
            after_s += printed.after_s
        return LineOutput(out=out, err=err, status=status, after_s=after_s)

    def _run_one(self, words: list[str]) -> LineOutput:
        root = words[0] == "sudo"
        if root:
            words = words[2:] if words[1:2] == ["-n"] else words[1:]
        if not words:
            return LineOutput(err="usage: sudo command\n", status=1)
        if (page := help_page(words)) is not None:
            return LineOutput(out=page)
        for path, command in self._commands.items():
            if tuple(words[: len(path)]) == path:
                if path[0] == "config" and self._unit.options.sudo_needed and not root:
                    return LineOutput(out="Root privileges are required for this operation\n", status=1)
                try:
                    return command(words[len(path) :])
                except CommandRefused as error:
                    status = self._unit.options.error_status if error.status is None else error.status
                    return LineOutput(out=f"Error: {error.text}\n", status=status)
        if words[0] in ("show", "config"):
            return LineOutput(err=f'Error: No such command "{" ".join(words[1:])[:80]}".\n', status=MISUSED)
        return LineOutput(err=f"bash: {words[0][:80]}: command not found\n", status=NOT_FOUND)

    # --- show

    def _show_config(self) -> str:
        rows = [(pair, pair.a, pair.b) for pair in self._unit.configured]
        return protocol.write_table(protocol.CONFIG_COLUMNS, rows)

    def _show_status(self) -> str:
        rows = [(row.pair, row.pair.a, row.pair.b, row.a_state, row.b_state) for row in self._unit.rows()]
        return protocol.write_table(protocol.STATUS_COLUMNS, rows)

    def _show_port_config(self) -> str:
        unit = self._unit
        names = {override: word for word, override in protocol.OVERRIDES.items()}
        rows = [(end, unit.labels.get(end, ""), names[unit.override(end)]) for end in self._ends()]
        return protocol.write_table(protocol.PORT_CONFIG_COLUMNS, rows)

    def _show_port_status(self) -> str:
        found = {end: row for row in self._unit.rows() for end in row.pair.ends}
        rows = []
        for end in self._ends():
            row = found.get(end)
            other = "" if row is None else row.pair.b if end == row.pair.a else row.pair.a
            state = "blocked" if row is None else row.a_state if end == row.pair.a else row.b_state
            rows.append((end, self._unit.options.connector, "2" if end.side == "A" else "1", other, state))
        return protocol.write_table(protocol.PORT_STATUS_COLUMNS, rows)

    def _show_losses(self) -> str:
        ends = self._unit.capabilities.ends
        near, far = ([end for end in ends if end.side == side] for side in "AB")
        mirror = self._unit.mirror
        rows = []
        for one in near:
            for other in far:
                pair = Crossconnect.of(one, other)
                rows.append((pair, *LOSS_AT, f"{mirror.loss_db(pair):.2f}", "0.1"))
        return protocol.write_table(protocol.LOSS_COLUMNS, rows)

    def _show_port_mapping(self) -> str:
        return protocol.write_port_mapping(len(self._unit.capabilities.ends) // 2)

    def _show_version(self) -> str:
        half = len(self._unit.capabilities.ends) // 2
        lines = {
            "SONiC Software Version": SOFTWARE,
            "Platform": "x86_64-ocs_twin-r0",
            "HwSKU": f"OCS-{half}x{half}-TWIN",
            "ASIC": "ocs",
            "Serial Number": self._unit.serial,
            "Uptime": protocol.write_uptime(self._unit.uptime_s),
        }
        return "\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())

    # --- config

    def _add(self, words: Sequence[str]) -> LineOutput:
        _expect(words, 1, 2)
        mode = words[1] if len(words) > 1 else self._unit.options.default_mode
        if mode not in tuple(Mode):
            raise CommandRefused(f"Invalid mode {mode[:80]!r}. Use update, safe or overwrite", status=MISUSED)
        after_s = self._unit.add(_pairs(words[0]), Mode(mode))
        return LineOutput(out="Add cross-connect succeeded\n", after_s=after_s)

    def _delete(self, words: Sequence[str]) -> LineOutput:
        _expect(words, 1)
        return LineOutput(out="Delete cross-connect succeeded\n", after_s=self._unit.delete(_pairs(words[0])))

    def _set_state(self, words: Sequence[str]) -> LineOutput:
        _expect(words, 2)
        if words[1] not in protocol.OVERRIDES:
            raise CommandRefused(f"Invalid state {words[1][:80]!r}. Use normal or force_blocked", status=MISUSED)
        override: PortOverride = protocol.OVERRIDES[words[1]]
        self._unit.set_port(_port(words[0]), override)
        return LineOutput(out="Set port state succeeded\n")

    def _set_label(self, words: Sequence[str]) -> LineOutput:
        _expect(words, 2)
        end = _port(words[0])
        self._unit.check_port(end)
        if len(words[1]) > 64 or not words[1].isprintable():
            raise CommandRefused("Invalid label")
        self._unit.labels[end] = words[1]
        return LineOutput(out="Set port label succeeded\n")

    def _ends(self) -> list[PortSide]:
        """1A, 1B, 2A, ..."""
        return sorted(self._unit.capabilities.ends, key=lambda end: (int(end.port), end.side))


def words_of(line: str) -> list[tuple[str, list[str]]]:
    """Words of each command, with its separator from the one before. Raises ValueError for a syntax error."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    steps: list[tuple[str, list[str]]] = []
    joint, words = ";", list[str]()
    for word in (*lexer, ";"):
        if not word or word[0] not in ";&|<>()" or (word == ">&" and words[-1:] == ["2"]):
            words.append(word)
        elif word not in (";", "&&"):
            raise ValueError(f"near unexpected token {word[:20]!r}")
        elif ">&" in words[: -len(JOINED)] or (">&" in words and words[-len(JOINED) :] != JOINED):
            raise ValueError("near unexpected token '>&'")
        else:
            if words:
                steps.append((joint, words))
            elif "&&" in (word, joint):
                raise ValueError("near unexpected token '&&'")
            joint, words = word, []
    return steps


def _expect(words: Sequence[str], least: int, most: int | None = None) -> None:
    if len(words) < least:
        raise CommandRefused("Missing argument.", status=MISUSED)
    if len(words) > (least if most is None else most):
        raise CommandRefused(f"Got unexpected extra argument ({words[-1][:80]})", status=MISUSED)


def _show(table: Callable[[], str], words: Sequence[str]) -> LineOutput:
    _expect(words, 0)
    return LineOutput(out=table())


def _pairs(text: str) -> list[Crossconnect]:
    try:
        return protocol.parse_list(text)
    except ConfigError as error:
        raise CommandRefused(str(error)) from error


def _port(text: str) -> PortSide:
    try:
        return protocol.parse_port(text)
    except ConfigError as error:
        raise CommandRefused(str(error)) from error
