"""No text of a request is the name of a file: what the daemon opens does not depend on what it is sent."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.client import AsyncClient
from hwd_drivers.core.errors import HwdError

SECRET = "topology: s3cr3t\nlinks: [k3pt <-> s4fe]\n"
BLANKS = [chr(number) for number in range(0x3001) if chr(number).isspace()]
"""All of them: what one reader strips, another takes for a part of a name."""
AROUND = [*BLANKS, "\0", "\u200b", "\ufeff", "\x7f", "/", "/.", "#", "?", "%20", "%00"]
PLAYBOOKS = (
    "playbook: p\nshows: x\nsteps:\n  - apply: {{topology: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - apply: {{pairs: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - include: {{file: {}}}\n",
    "playbook: p\nshows: x\nparameters: {{f: x.yaml}}\nsteps:\n  - include: {{file: '{{{{ f }}}}'}}\n  - note: {}\n",
    "playbook: {}\nshows: x\nsteps:\n  - apply: {{topology: x}}\n",
    "playbook: p\nshows: x\nsteps:\n  - include: {{file: here.yaml}}\nfiles: {{here.yaml: {}}}\n",
    "playbook: p\nshows: x\nsteps:\n  - fault: {{switch: ocs1, fault: {}}}\n",
    "playbook: p\nshows: x\nreport: {{compare_with: {}}}\nsteps:\n  - jump: x\n",
    "!!python/object/apply:open [{}]\n",
    "playbook: !include {}\n",
)
NAMES = "secret.yaml", "fifo.yaml", "link.yaml", "zero.yaml", "folder.yaml"

_opened: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Every way to a file: `open`, `os.open`, `os.listdir` and their like are audited by the interpreter."""
    if _opened is not None and event.split(".")[0] in ("open", "os", "shutil", "glob", "pathlib", "tempfile"):
        _opened.append(f"{event} {arguments[0] if arguments else ''!r}")


sys.addaudithook(_watch)  # there is no taking it away again; it does nothing while nobody looks


@contextmanager
def none_opened_of(names: tuple[str, ...]) -> Iterator[None]:
    global _opened
    seen: list[str] = []
    _opened = seen
    try:
        yield
    finally:
        _opened = None
    assert [one for one in seen if any(name in one for name in names)] == []


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


async def refused(client: AsyncClient, call: str, **arguments: Any) -> None:
    with pytest.raises(HwdError) as raised:
        await getattr(client, call)(**arguments)
    assert "s3cr3t" not in str(raised.value)
    assert "k3pt" not in str(raised.value)


@pytest.mark.parametrize("place", [*NAMES, "zero", "stdin"])
async def test_no_call_opens_a_file_of_the_daemons_machine(
    client: AsyncClient, places: dict[str, str], place: str
) -> None:
    """The answer to a FIFO or to /dev/zero would never come."""
    name = places[place]
    written = (name, os.path.relpath(name), f"file://{name}", f"~/{name}", f"ocs1:{name}", f"@{name}")
    around = (
        (*(name + one for one in AROUND), *(one + name for one in AROUND)) if place in ("fifo.yaml", "zero") else ()
    )
    with none_opened_of((*NAMES, "/dev/zero", "/dev/stdin")):
        for text in (*written, *around):
            await refused(client, "plan", what=text)
            await refused(client, "plan", file=(text, f"topology: t\nlinks: [{text!r}]\n"))
        for text in (*written, *((f"{name}\n", f"{name}\0", f"{name}\u3000") if around else ())):
            for playbook in PLAYBOOKS:
                parameters = {"f": text} if "parameters" in playbook else {}
                await refused(client, "start_run", text=playbook.format(repr(text)), file=text, parameters=parameters)
            await refused(client, "apply", what=text)
            await refused(client, "take_lease", holder=text, ports=[text], for_s=60)
            await refused(client, "fault", fault={"switch": text, "fault": text})
            await refused(client, "block", switch=text, ends=[text], by=text)
            await refused(client, "run", id=text)
            await refused(client, "run_documents", id=text)
