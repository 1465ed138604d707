"""The kind of a file: testbed, playbook, topology or scenario. The key at its top names it."""

import shlex

from hwd.config.yaml.tree import Reading

KINDS = ("testbed", "playbook", "topology", "scenario")
_USES = {
    "testbed": "serve it with `hwd serve {}`",
    "playbook": "run it with `hwd run {}`",
    "topology": "apply it with `hwd apply {}`",
    "scenario": "play it with `hwd twin up TESTBED --scenario {}`",
}


def kind_of(reading: Reading) -> str | None:
    """The kind that a file names; None where it names no kind."""
    return next((key for key in (reading.root.mapping() if reading.root else {}) if key in KINDS), None)


def is_other_kind(reading: Reading, kind: str) -> bool:
    """Whether a file that is read as `kind` is of another kind. Then that is added as its problem, with the command
    that takes the file.
    """
    found = kind_of(reading)
    if found is None or (reading.root is not None and kind in reading.root.mapping()):
        return False
    reading.add((), f"is a {found}, not a {kind}: {_USES[found].format(shlex.quote(reading.file))}")
    return True
