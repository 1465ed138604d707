"""RemoteHost over a real SSH server: what a host lacks is said with the remedy, and who gives up need not wait."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwd.model.testbed import Host, HostTwin
from hwd.rollout import births
from hwd.rollout import remote as module
from hwd.rollout.host_report import Result
from hwd.rollout.layout import Layout
from hwd.rollout.remote import RemoteHost
from hwd.rollout.remove import Removal
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError

from .conftest import LAB, quiet

Make = Callable[..., Any]


def host(server: Any, **changes: Any) -> Host:
    return replace(Host(name="h0", ports=(), ssh=server.place), **changes)


async def test_a_host_is_looked_at_with_its_own_python_and_files_are_there_as_long_as_they_are_needed(
    sshd: Any, layout: Layout, tmp_path: Path
) -> None:
    async with RemoteHost.open(host(sshd), layout, quiet, home=sshd.home) as remote:
        facts = await remote.look()
        assert (facts["current"], facts["environments"], facts["config"]) == (None, {}, None)
        with pytest.raises(FailedError, match=r"^h0: .*No such file or directory"):
            await remote.do("back")
    said: list[str] = []
    async with RemoteHost.open(host(sshd), layout, lambda _, words: said.append(words), home=sshd.home) as remote:
        async with remote.staging({"agent.yaml": b"x" * 2_000_000}) as folder:
            assert Path(folder).parent == Path(layout.staging)
            assert Path(folder).stat().st_mode & 0o777 == 0o700
            assert (Path(folder) / "agent.yaml").stat().st_size == 2_000_000
        assert not Path(layout.staging).exists()
    assert said[-1] == "copied 2.0 of 2.0 MB"


async def test_a_host_without_a_python_that_is_new_enough_or_a_way_to_it_is_refused(
    sshd: Any, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(words: str, **changes: Any) -> None:
        with pytest.raises(ConfigError, match=words):
            async with RemoteHost.open(host(sshd, **changes), layout, quiet, home=sshd.home):
                pass

    await refused(r"h0: the testbed file does not say how to reach it: give it ssh: root@ADDRESS", ssh=None)
    twin = HostTwin(kernel=False, timing="ideal", seed=0)
    await refused(r"h0: is a twin of this machine: its agent comes with the rack", ssh=None, twin=twin)
    with monkeypatch.context() as patched:
        patched.setattr(module, "PYTHON_LEAST", (3, 99))
        await refused(r"h0: its Python is too old \(.*python3 is 3\.\d+.*\); the agent needs at least 3.99")
    monkeypatch.setattr(module, "FIND", module.FIND.replace(" ".join(module.PYTHONS), "no-such-python"))
    await refused(r"h0: it has no python3; the agent needs at least 3.11\. Install one there")


async def test_who_gives_up_does_not_wait_for_the_host(sshd: Any, layout: Layout) -> None:
    """Ctrl-C while a host works: its thread cannot be stopped, so it loses the connection."""
    begun = asyncio.Event()

    async def work() -> None:
        async with RemoteHost.open(host(sshd), layout, quiet, home=sshd.home) as remote:
            begun.set()
            await remote._run("sleep 100")

    loop = asyncio.get_running_loop()
    working = asyncio.create_task(work())
    await begun.wait()
    began_s = loop.time()
    loop.call_later(0.2, working.cancel)
    await asyncio.wait([working])
    assert working.cancelled()
    assert loop.time() - began_s < 15.0


async def test_a_removal_without_the_broker_says_what_is_gone_and_what_is_not(
    sshd: Any, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(births, "CONNECT_S", 0.2)
    agent_file = Path(layout.config)
    agent_file.parent.mkdir(parents=True)
    agent_file.write_text("broker: secret")
    removal = Removal(
        testbed=LAB, broker="mqtt://127.0.0.1:1", layout=layout, progress=lambda host, words: None, home=sshd.home
    )
    ((report,), error) = await removal.run([host(sshd)])
    assert report.result is Result.FAILED
    assert isinstance(error, LinkError)
    assert f"h0: nothing is left there: removed {agent_file}. The broker's retained messages of it remain" in report.why
    assert not agent_file.exists()
