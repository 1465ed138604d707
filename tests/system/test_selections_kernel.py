"""Jobs set their hosts' own switches on kernel links while daemon and broker are killed: all is recorded."""

import asyncio
import signal
import stat
import sys
from pathlib import Path

import pytest

from hwd_agents.switches.select_client import Selector
from hwd_agents.wire import Selected
from hwd_drivers.core.errors import LinkError, NotReadyError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from .conftest import NAME, Lab
from .test_host_switches import TESTBED

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(180)]

ROUNDS = 12
WITHIN_S = 10.0
TEXT = TESTBED.replace("testbed: acos", f"testbed: {NAME}").replace(
    "{timing: ideal, seed: ", "{kernel: true, timing: ideal, seed: "
)
TEXT = TEXT.replace("twin: {kernel: true, timing: ideal, seed: 7}", "twin: {timing: ideal, seed: 7}")


def selector(lab: Lab, host: str) -> Selector:
    return Selector(f"unix:{lab.folder / 'run' / NAME / f'{host}.select.sock'}")


async def select(lab: Lab, host: str, output: int, within_s: float = WITHIN_S) -> Selected:
    wanted = {f"{kind}{host[1:]}": f"in-{output}" for kind in ("tx", "rx")}

    def ask() -> Selected:
        with selector(lab, host) as one:
            return one.select(wanted, within_s=within_s)

    offload = ThreadOffload(1)
    try:
        return await offload(ask)
    finally:
        offload.close()


async def both(lab: Lab, output: int) -> list[Selected]:
    return list(await asyncio.gather(select(lab, "h0", output), select(lab, "h1", output)))


async def granted(lab: Lab) -> None:
    await lab.until(
        "every host has the lease of its switches",
        lambda now: all(one["lease"] and one["up"] for one in now["switches"] if one["owner"]),
    )


async def test_selections_go_on_while_daemon_and_broker_are_killed_and_are_all_recorded(lab: Lab) -> None:
    daemon = await lab.up(text=TEXT)
    await granted(lab)
    path = lab.folder / "run" / NAME / "h0.select.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    done: list[Selected] = []
    for number in range(ROUNDS):
        if number in (2, 7):  # the embedded broker dies with it
            assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
        if number in (5, 10):
            daemon = await lab.serve()
        done += await both(lab, 2 - number % 2)
    for answer in done:
        port = answer.ports["eth0"]
        assert port.at_ns is not None
        assert all((one.commanded_ns or 0) < port.at_ns for one in answer.switches.values())
    await lab.settled()
    await granted(lab)
    names = sorted(answer.selection for answer in done)

    async def all_told() -> bool | None:
        timelines = await lab.documents("timeline")
        return sorted(each["reconfiguration"] for each in timelines) == names or None

    await lab.found("every selection has its timeline", all_told)
    told = await lab.documents("host.selection")
    assert sorted(each["selection"] for each in told) == names
    assert {each["outcome"] for each in told} == {"up"}
    for timeline in await lab.documents("timeline"):
        assert [link["link"] for link in timeline["links"]] == ["h0.eth0<->h1.eth0"], timeline
        own = next(end for end in timeline["ends"] if end["end"].startswith(timeline["host"]))
        carrier = next(one for one in own["instants"] if one["name"] == "carrier")
        assert (carrier["knowledge"], carrier.get("origin")) == ("seen", "kernel"), f"{carrier} of {own}"
    assert len(await lab.no_gap()) == 2


async def test_a_host_alone_is_told_that_its_neighbour_has_not_switched(lab: Lab) -> None:
    await lab.up(text=TEXT)
    await granted(lab)
    with pytest.raises(NotReadyError, match="eth0: no carrier"):
        await select(lab, "h0", 2, within_s=0.5)
    said = await lab.ok("lease", "kick", "tx0", "--json")
    assert said.json["told"] is True
    with pytest.raises(RefusedError, match=r"tx0: this host may not set it now: \S+@\S+ has taken it back"):
        await select(lab, "h0", 1)
    await lab.ok("lease", "grant", "tx0")
    assert (await select(lab, "h0", 1)).outcome == "up"
    program = Path(sys.executable).with_name("hwd-agent")
    command = await lab.start(
        "select", str(program), "select", "tx0:in-1", "--socket", str(lab.folder / "run" / NAME / "h0.select.sock")
    )
    assert await command.process.wait() == 0
    assert "tx0: in-1, epoch 2; it stood so already" in command.log.read_text()
    with pytest.raises(LinkError, match="cannot reach the agent"), Selector(str(lab.folder / "nowhere.sock")) as one:
        one.show()
