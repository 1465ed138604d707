"""The disk of a real agent's spool is full, read-only or damaged: the agent says what to do, its watchers continue."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import CROSSED, STRAIGHT, Lab, SmallDisk, small_disk

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(180)]

SIZE_BYTES = 1 << 20


@pytest.fixture
def disk(lab: Lab) -> Iterator[SmallDisk]:
    """Under the spool of host `h0`."""
    path = lab.folder / "run" / "lab" / "spool" / "h0"
    path.mkdir(parents=True)
    (lab.folder / "run" / "lab").chmod(0o700)
    with small_disk(path, SIZE_BYTES) as disk:
        yield disk


def events(disk: SmallDisk) -> Path:
    return disk.path / "events"


async def spool_of(lab: Lab, host: str = "h0") -> dict[str, Any]:
    now = await lab.get("/api/v1/status")
    (found,) = (each["spool"] for each in now["hosts"] if each["host"] == host)
    assert isinstance(found, dict)
    return found


async def told(lab: Lab, words: str) -> str:
    """Wait until the daemon tells so of the spool of `h0`."""

    async def look() -> str | None:
        trouble = str((await spool_of(lab))["trouble"])
        return trouble if (words in trouble if words else not trouble) else None

    return await lab.found(f"the trouble of the spool is {words or 'over'!r}", look)


async def moves(lab: Lab, number: int) -> None:
    """The light moves and moves back, and every carrier follows."""
    for index in range(number):
        await lab.move((STRAIGHT, CROSSED)[index % 2])


async def test_full_disk_is_told_and_no_event_is_lost_nor_where_an_agent_starts_on_it(
    lab: Lab, disk: SmallDisk
) -> None:
    await lab.up()
    await moves(lab, 2)
    await lab.nothing_lost()
    disk.fill()
    size = events(disk).stat().st_size
    await moves(lab, 2)
    trouble = await told(lab, "No space left on device")
    assert "Free space on its file system" in trouble
    assert "kept in memory" in trouble
    said = await lab.hwd("status")
    assert "h0: spool: cannot write: No space left on device" in " ".join(said.out.split())
    await lab.nothing_lost()  # what the disk did not take came to the daemon all the same
    assert events(disk).stat().st_size <= size + 4096
    disk.free()
    await told(lab, "")  # by itself: nothing happens there meanwhile
    await lab.nothing_lost()

    # An agent starts on a full disk, and watches.
    disk.fill()
    killed = lab.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    await lab.until("h0 is away", lambda now: not next(host for host in now["hosts"] if host["host"] == "h0")["up"])
    await lab.settled()
    await moves(lab, 2)
    await told(lab, "No space left on device")
    await lab.nothing_lost()


async def test_damaged_file_is_told_and_all_that_is_readable_comes(lab: Lab, disk: SmallDisk) -> None:
    daemon = await lab.up()
    await moves(lab, 2)
    await lab.nothing_lost()
    await daemon.end(signal.SIGKILL)  # its broker dies with it: events wait
    size = events(disk).stat().st_size
    await moves(lab, 6)
    killed = lab.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    with events(disk).open("r+b") as file:
        file.seek(size + (events(disk).stat().st_size - size) // 2)
        file.write(b"\x00" * 16)
    await lab.serve()
    await lab.settled()
    trouble = await told(lab, "could not be read")
    assert "Look at its disk" in trouble

    async def lost() -> list[dict[str, Any]] | None:
        found = await lab.documents("host.lost")
        return [each for each in found if "damaged" in each["why"]] or None

    found = await lab.found("the loss is recorded", lost)
    assert {each["host"] for each in found} == {"h0"}
    await lab.no_gap("h0")


async def test_changes_that_only_the_memory_of_a_killed_agent_had_are_counted_again_and_none_is_missing(
    lab: Lab, disk: SmallDisk
) -> None:
    await lab.up()
    await moves(lab, 2)
    await lab.nothing_lost()
    disk.fill()
    await moves(lab, 8)
    await told(lab, "No space left on device")
    await lab.nothing_lost()
    os.kill(lab.rack["hosts"]["h0"]["agent"], signal.SIGKILL)
    await lab.until("h0 is away", lambda now: not next(host for host in now["hosts"] if host["host"] == "h0")["up"])
    await lab.settled()
    await moves(lab, 1)

    async def recorded() -> dict[str, int] | None:
        found = await lab.carrier_recorded()
        return found if all(found.get(port, 0) >= number for port, number in lab.carrier_changes().items()) else None

    found = await lab.found("no change is missing in the records", recorded)
    again = {port for port, number in lab.carrier_changes().items() if found[port] > number}
    assert again == {port for port in found if port.startswith("h0.")}
    counted = [each for each in await lab.documents("host.lost") if each["host"] == "h0"]
    assert counted
    assert {each["why"] for each in counted} == {"flaps that nobody saw one by one"}
