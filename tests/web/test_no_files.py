"""No text of a request is the name of a file: what the daemon opens does not depend on what it is sent."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.client import AsyncClient
from hwd.config import topologies
from hwd.config.playbook.playbook import load_playbook_text
from hwd.config.testbed.topology_file import load_topology_text
from hwd.config.testbed.wanted_state import parse_what
from hwd.daemon.installed_drivers import load
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, HwdError

SECRET = "topology: s3cr3t\nlinks: [k3pt <-> s4fe]\n"
BLANKS = [chr(number) for number in range(0x3001) if chr(number).isspace()]
"""All of them: what one reader strips, another takes for a part of a name."""
AROUND = ["", *BLANKS, "\0", "\u200b", "\ufeff", "\x7f", "/", "/.", "#", "?", "%20", "%00", "\udcff"]

_opened: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Every way to a file: `open`, `os.open`, `os.listdir` and their like are audited by the interpreter."""
    if _opened is not None and event.split(".")[0] in ("open", "os", "shutil", "glob", "pathlib", "tempfile"):
        _opened.append(f"{event} {arguments[0] if arguments else ''!r}")


sys.addaudithook(_watch)  # there is no taking it away again; it does nothing while nobody looks


@contextmanager
def nothing_opened() -> Iterator[None]:
    global _opened
    seen: list[str] = []
    _opened = seen
    try:
        yield
    finally:
        _opened = None
    assert seen == []


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A file with a secret, and what harms by being opened at all."""
    folder = tmp_path / "places"
    folder.mkdir()
    (folder / "secret.yaml").write_text(SECRET)
    os.mkfifo(folder / "fifo.yaml")
    (folder / "link.yaml").symlink_to(folder / "secret.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    (folder / "folder.yaml").mkdir()
    return {path.name: str(path) for path in folder.iterdir()} | {"zero": "/dev/zero", "stdin": "/dev/stdin"}


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Testbed:
    path = tmp_path_factory.mktemp("testbed") / "t.yaml"
    path.write_text(
        "testbed: t\nswitches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}\n"
        "hosts: {}\nfibres: []\n"
    )
    return load(path).require()


def around(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    blanks = st.sampled_from(AROUND)
    return st.builds(lambda before, name, after: before + name + after, blanks, names, blanks)


NAMES = st.sampled_from(
    ["secret.yaml", "fifo.yaml", "link.yaml", "zero.yaml", "folder.yaml", "zero", "stdin", "absent"]
)
PLAYBOOKS = [
    "playbook: p\nshows: x\nsteps:\n  - apply: {{topology: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - apply: {{pairs: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - include: {{file: {}}}\n",
    "playbook: p\nshows: x\nparameters: {{f: x.yaml}}\nsteps:\n  - include: {{file: '{{{{ f }}}}'}}\n  - note: {}\n",
    "playbook: {}\nshows: x\nsteps:\n  - wait: {{for_s: 1}}\n",
    "playbook: p\nshows: x\nsteps:\n  - include: {{file: here.yaml}}\nfiles: {{here.yaml: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - fault: {{switch: ocs1, fault: {}}}\n",
    "playbook: p\nshows: x\nreport: {{compare_with: {}}}\nsteps:\n  - note: x\n",
    "!!python/object/apply:open [{}]\n",
    "playbook: !include {}\n",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)
@given(data=st.data())
def test_no_parser_of_the_service_opens_a_file(places: dict[str, str], testbed: Testbed, data: st.DataObject) -> None:
    name = data.draw(NAMES)
    name = places.get(name, name)
    relative = os.path.relpath(name)
    text = data.draw(
        around(st.sampled_from([name, relative, f"file://{name}", f"~/{name}", f"ocs1:{name}", f"@{name}"]))
    )
    playbook = data.draw(st.sampled_from(PLAYBOOKS)).format(repr(text))
    topologies.names()  # what is installed is read once, before any request names some of it
    with nothing_opened():
        for call in (
            lambda: parse_what(text, testbed),
            lambda: load_topology_text(f"topology: {text!r}\nlinks: [{text!r}]\n", file=text, testbed=testbed),
            lambda: load_playbook_text(playbook, file=text, overrides={"f": text}, testbed=testbed),
        ):
            message = ""
            try:
                call()
            except ConfigError as error:
                message = str(error)
            assert "s3cr3t" not in message
            assert "k3pt" not in message


@pytest.mark.parametrize("place", ["secret.yaml", "fifo.yaml", "link.yaml", "zero.yaml", "zero"])
async def test_no_call_reads_a_file_of_the_daemons_machine(
    client: AsyncClient, places: dict[str, str], place: str
) -> None:
    """The answer to a FIFO or to /dev/zero would never come."""
    for after in ("", " ", "\t", "\n", "\r\n", "\x1f", "\x85", "\xa0", "\u2003", "\u3000", "\0"):
        text = places[place] + after
        topology = f"topology: t\nlinks: [{text!r}]\n"
        include = f"playbook: p\nshows: x\nsteps:\n  - include: {{file: {text!r}}}\n"
        apply = f"playbook: p\nshows: x\nsteps:\n  - apply: {{topology: {text!r}}}\n"
        for method, arguments in (
            (client.plan, {"what": text}),
            (client.apply, {"what": text}),
            (client.plan, {"file": (text, topology)}),
            (client.start_run, {"text": include, "file": text}),
            (client.start_run, {"text": apply, "file": text}),
            (client.start_run, {"text": apply, "file": text, "parameters": {text: text}}),
            (client.take_lease, {"holder": text, "ports": [text], "for_s": 60}),
            (client.fault, {"fault": {"switch": text, "fault": text}}),
            (client.block, {"switch": text, "ends": [text], "by": text}),
            (client.run, {"id": text}),
            (client.run_documents, {"id": text}),
        ):
            with pytest.raises(HwdError) as raised:
                await method(**arguments)
            assert "s3cr3t" not in str(raised.value)
            assert "k3pt" not in str(raised.value)
