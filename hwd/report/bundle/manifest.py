"""The manifest of a bundle: its format, the program that made it, the choices of its report, and its members."""

import json
import platform
from importlib.metadata import version

import msgspec

from hwd.model.recorded_run import Run

FORMAT, FORMAT_VERSION = "hwd-bundle", 1
MANIFEST, README, RECORD, PAGE = "manifest.json", "README.txt", "run.jsonl", "report.html"
"""Members of every bundle; its tables and figures are in the folders below."""
TABLES, FIGURES = "tables/", "figures/"

MEMBERS_MAX = 4096
MEMBER_BYTES_MAX = 64 * 1024**2
"""The most bytes of a table or a figure: some hundred thousand samples."""
PAGE_BYTES_MAX = 128 * 1024**2
RECORD_BYTES_MAX = 4 * 1024**3
"""The most bytes of run.jsonl: some seven million documents."""
LIBRARIES = ("altair", "jinja2", "msgspec", "numpy", "vl-convert-python")
"""Another version of them may change a last digit, or the page."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that makes reports. `commit`: None where it is unknown."""

    version: str
    commit: str | None
    python: str
    libraries: dict[str, str]

    def __str__(self) -> str:
        return f"hwd {self.version}" + (f", commit {self.commit}" if self.commit else "")

    def unlike(self, other: "Program") -> tuple[str, ...]:
        """What differs from another: `numpy 2.4.6 and 2.5.0`."""
        parts = [(name, self.libraries.get(name), other.libraries.get(name)) for name in LIBRARIES]
        parts = [("hwd", self.version, other.version), ("commit", self.commit, other.commit), *parts]
        return tuple(
            f"{name} {first or 'unknown'} and {second or 'unknown'}" for name, first, second in parts if first != second
        )


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a report: its groups, and the paper that it is compared with."""

    by: list[str]
    compare_with: str | None


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the zip file. `bytes`: uncompressed."""

    name: str
    holds: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a bundle; `members`: all others, in the order of the file. `run`: the id of the run."""

    format: str
    format_version: int
    run: str
    made_by: Program
    report: Choices
    members: list[Member]


def bytes_max(name: str) -> int:
    """The most that a member of this name may have, uncompressed."""
    return {RECORD: RECORD_BYTES_MAX, PAGE: PAGE_BYTES_MAX}.get(name, MEMBER_BYTES_MAX)


def this_program(*, commit: str | None) -> Program:
    return Program(
        version=version("hwd-daemon"),
        commit=commit,
        python=platform.python_version(),
        libraries={name: version(name) for name in LIBRARIES},
    )


def encoded(value: object, *, indent: int | None = None) -> bytes:
    """A JSON document. A surrogate without its partner has no UTF-8 form; JSON can escape it."""
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace") + b"\n"


HOLDS = {README: "what this is, for who finds it", RECORD: "the run and every document as recorded"}
"""What the members that are not derived hold."""
_ABOUT = """\
A run of hwd, with its report
=============================

Run {run}, playbook {playbook}, testbed {testbed}, {time}.
Made by {program}.

run.jsonl      the run with its playbook, testbed file and inventory on the first line, then every document that was
               recorded, one a line, as JSON. All else was derived from it.
report.html    the report. Opens in any browser, without a network.
tables/        the tables of the report, as JSON, with full precision. Times are in seconds where a name ends in _s;
               null is unknown, which is not zero.
figures/       each figure as a Vega-Lite specification with its data, as JSON: `specification` is what
               https://vega.github.io/editor and other programs for Vega-Lite draw.
manifest.json  what each file holds, its size and SHA-256, the program that made it, and the choices of the report.

`hwd verify FILE.hwd.zip` derives every table, every figure and the page from run.jsonl again, and says what differs.
"""


def about(run: Run, made_by: Program) -> bytes:
    """The README of a bundle."""
    time = "virtual time" if run.virtual_time else "real time"
    text = _ABOUT.format(run=run.id, playbook=run.playbook, testbed=run.testbed, time=time, program=made_by)
    return text.encode("utf-8", "backslashreplace")
