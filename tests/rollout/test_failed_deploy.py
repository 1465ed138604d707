"""A deploy whose agent does not come up: what ran before runs again, and where nothing ran, what stays is said."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd.model.testbed import Host
from hwd.rollout import layout as layouts
from hwd.rollout.births import Births
from hwd.rollout.broker import Brokers
from hwd.rollout.deploy import Rollout, _check_room
from hwd.rollout.host_report import HostReport
from hwd.rollout.layout import Layout
from hwd.rollout.remote import RemoteHost
from hwd.rollout.wheels import Bundle
from hwd_drivers.core.errors import DeadlineError, FailedError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from .conftest import LAB, NO_PROFILE, quiet

SYSTEMCTL = """#!/bin/sh
echo "$*" >> {log}
[ "$1" != show ] || echo ActiveState=active
[ "$1" != restart ] || ! grep -q wrong {config}
"""
"""Of a host whose agent ends at once where its file is wrong. A real systemd has the slow test of a fresh host."""
JOURNALCTL = "#!/bin/sh\necho 'hwd-agent[7]: broker: not authorized'\n"
PYTHON = """#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec {python} "$@"' sh "$@"
"""
"""Of a host that systemd runs on."""
WAS_LEFT = (
    r"(?s)^h0: .*Its last words:\nhwd-agent\[7\]: broker: not authorized\nNothing had to be changed "
    r"there, .*still runs as before\. For the cause"
)


@dataclass(slots=True, kw_only=True)
class Place:
    """A host below a folder, its systemd, and a roll-out to it."""

    server: Any
    layout: Layout
    log: Path
    rollout: Rollout

    @property
    def root(self) -> Path:
        return Path(self.layout.root)

    @property
    def agent_file(self) -> Path:
        return Path(self.layout.config)

    def put(self, id: str, agent_file: str, unit: str) -> None:
        (self.root / "current").symlink_to(id)
        self.agent_file.write_text(agent_file)
        Path(self.layout.unit).write_text(unit)

    async def deploy(self, *, active: bool, births: Births | None = None) -> HostReport:
        """A wrong agent file."""
        host = Host(name="h0", ports=(), ssh=self.server.place)
        async with RemoteHost.open(host, self.layout, quiet, home=self.server.home) as remote:
            facts = {**await remote.look(), "service": {"ActiveState": "active" if active else "failed"}}
            bundle = Bundle(id="a", version="0.1.0", wheels=(), spec=())
            files: dict[str, bytes | Path] = {"agent.yaml": b"wrong", "hwd-agent.service": b"new"}
            async with remote.staging(files) as staging:
                return await self.rollout._start(remote, births, staging, bundle, facts, made=False)


@pytest.fixture
def place(tmp_path: Path, make_sshd: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(layouts, "HIDDEN", ())  # this systemd hides nothing of /tmp
    layout = Layout(prefix=str(tmp_path / "host"), unit=str(tmp_path / "units/hwd-agent.service"))
    programs, log = tmp_path / "bin", tmp_path / "systemctl.log"
    for folder in (programs, Path(layout.unit).parent, Path(layout.config).parent, Path(layout.root) / "a"):
        folder.mkdir(parents=True)
    (programs / "systemctl").write_text(SYSTEMCTL.format(log=log, config=layout.config))
    (programs / "journalctl").write_text(JOURNALCTL)
    for program in programs.iterdir():
        program.chmod(0o755)
    python = Path(sys.executable).parent  # not what another manager of versions puts before it
    return Place(
        server=make_sshd(f"SetEnv=PATH={programs}:{python}:/usr/bin:/bin {NO_PROFILE}"),
        layout=layout,
        log=log,
        rollout=Rollout(
            testbed=LAB,
            brokers=Brokers(named="mqtt://10.0.0.1", daemons=None),
            layout=layout,
            offload=ThreadOffload(1),
            cache=tmp_path / "cache",
            progress=lambda host, words: None,
            birth_within_s=0.1,
        ),
    )


@pytest.mark.root
async def test_what_ran_before_a_deploy_that_fails_is_put_back_and_runs(place: Place) -> None:
    place.put("a", "right", "old")
    with pytest.raises(
        FailedError,
        match=r"^h0: what was deployed did not come out, and a runs again as before: hwd-agent does not start",
    ):
        await place.deploy(active=True)
    assert (place.agent_file.read_text(), Path(place.layout.unit).read_text()) == ("right", "old")
    assert [path.name for path in place.agent_file.parent.iterdir()] == ["agent.yaml"]
    assert place.log.read_text().splitlines()[-1] == "restart hwd-agent.service"
    assert place.log.read_text().count("restart") == 2


@pytest.mark.root
async def test_an_agent_of_which_nothing_had_to_be_changed_is_left_to_run_where_no_birth_of_it_is_heard(
    place: Place,
) -> None:
    """As where a broker has forgotten what it kept, and the agent's connection hangs."""
    python = place.log.parent / "bin/python3"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    place.put("a", "wrong", "new")  # as it is deployed
    place.agent_file.chmod(0o600)
    broker = EmbeddedBroker()
    try:
        async with Births.open("lab", await broker.start()) as births:
            with pytest.raises(DeadlineError, match=WAS_LEFT):
                await place.deploy(active=True, births=births)
    finally:
        await broker.close()
    assert {line.split()[0] for line in place.log.read_text().splitlines()} == {"show"}


@pytest.mark.root
async def test_where_nothing_ran_before_what_stays_is_said_with_what_to_do(place: Place) -> None:
    with pytest.raises(FailedError) as error:
        await place.deploy(active=False)
    said = str(error.value)
    assert said.startswith("h0: hwd-agent does not start")
    assert "The installed files stay, and systemd keeps starting it: `hwd agent doctor h0`" in said
    assert said.endswith("`hwd agent deploy h0` tries again, `hwd agent remove h0` removes them")
    assert place.agent_file.read_text() == "wrong", "as it says"
    place.agent_file.write_text("also wrong")
    with pytest.raises(FailedError, match="The installed files stay"):
        await place.deploy(active=False)
    assert place.agent_file.read_text() == "wrong", "what did not run either is not put back"


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_newer_agent_that_runs_is_not_replaced_by_an_older_one(place: Place, upgrade: bool) -> None:
    place.rollout.upgrade = upgrade
    host = Host(name="h0", ports=(), ssh=place.server.place)
    bundle = Bundle(id="0.1.0-a", version="0.1.0", wheels=(), spec=())
    facts = {
        "current": "0.2.0-b",
        "environments": {"0.2.0-b": {"version": "0.2.0"}},
        "service": {"ActiveState": "active"},
    }
    with pytest.raises(RefusedError, match=r"^h0: has the newer hwd-agent 0\.2\.0, and this is 0\.1\.0: upgrade hwd"):
        place.rollout._check_version(host, facts, bundle)
    place.rollout._check_version(host, {**facts, "service": {"ActiveState": "failed"}}, bundle)


@pytest.mark.root
async def test_a_host_without_room_is_refused_only_where_an_environment_has_to_be_made(place: Place) -> None:
    """A changed agent file, and the word that all is there already, need none."""
    host = Host(name="h0", ports=(), ssh=place.server.place)
    async with RemoteHost.open(host, place.layout, quiet, home=place.server.home) as remote:
        facts = {**await remote.look(), "systemd": True, "free_bytes": 0}
        await place.rollout._check(host, remote, facts, f"mqtt://127.0.0.1:{place.server.port}")
    with pytest.raises(FailedError, match=r"^h0: .* has 0 MB free, and 100 MB are needed\. Free some"):
        _check_room("h0", facts)
