"""The broker as hosts reach it: nothing that would lead a host to itself, and no password where others read it."""

import os
from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import Logins, UserRights
from hwd.rollout.broker import Brokers
from hwd_drivers.core.errors import ConfigError

ELSEWHERE: dict[str, Any] = {"boot": "another", "network": 1}


def here() -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, "network": os.stat("/proc/self/ns/net").st_ino}


def brokers(named: str | None = None, daemons: str | None = None) -> Brokers:
    return Brokers.of(named, daemons, {})


def test_a_named_broker_is_taken_as_it_is_and_one_on_every_address_at_the_one_that_the_host_sees() -> None:
    assert brokers("mqtt://10.0.0.1:1883", "mqtt://127.0.0.1:1").for_host("h0", ELSEWHERE, towards="10.0.0.1") == (
        "mqtt://10.0.0.1:1883"
    )
    assert brokers("mqtt://10.0.0.1:1883", "mqtt://127.0.0.1:1").from_here == "mqtt://127.0.0.1:1"
    assert brokers("mqtt://10.0.0.1:1883").from_here == "mqtt://10.0.0.1:1883"
    with pytest.raises(ConfigError, match=r"no broker: .*hwd serve"):
        _ = brokers().from_here
    every = brokers(None, "mqtt://u:p@0.0.0.0:1883")
    assert every.for_host("h0", ELSEWHERE, towards="10.9.0.1") == "mqtt://u:p@10.9.0.1:1883"
    with pytest.raises(ConfigError, match="behind a jump host"):
        every.for_host("h0", ELSEWHERE, towards=None)


def test_what_would_lead_a_host_to_itself_is_refused_with_the_remedy_unless_it_is_this_machine() -> None:
    remedy = r"h0: it cannot reach the broker .*embedded:10.0.0.1:1883.*HWD_BROKER: mqtt://10.0.0.1:1883"
    for url in ("mqtt://127.0.0.1:1883", "mqtt://[::1]:1883", "mqtt://localhost", "unix:/run/broker"):
        with pytest.raises(ConfigError, match=remedy):
            brokers(None, url).for_host("h0", ELSEWHERE, towards="10.0.0.1")
    own = brokers(None, "mqtt://127.0.0.1:1883")
    assert own.for_host("h0", here(), towards="127.0.0.1") == "mqtt://127.0.0.1:1883"
    with pytest.raises(ConfigError, match="the address means the host itself"):  # another network of this machine
        own.for_host("h0", here() | {"network": 1}, towards="127.0.0.1")


def test_passwords_come_from_the_environment_and_a_host_gets_its_own_login_and_never_the_daemons() -> None:
    with pytest.raises(ConfigError, match=r"HWD_BROKER") as error:
        brokers("mqtt://u:geheim@10.0.0.1")
    assert "geheim" not in str(error.value)
    found = Brokers.of(None, None, {"HWD_BROKER": "mqtt://u:geheim@10.0.0.1"})
    assert found.for_host("h0", ELSEWHERE, towards=None) == "mqtt://u:geheim@10.0.0.1"
    own = f"lab.h0:{LOGINS.password('lab.h0')}"
    daemons = LOGINS.for_daemon("mqtt://0.0.0.0:1883")
    at_the_daemon = Brokers.of(None, daemons, {}, logins=LOGINS)
    assert at_the_daemon.for_host("h0", ELSEWHERE, towards="10.9.0.1") == f"mqtt://{own}@10.9.0.1:1883"
    assert at_the_daemon.login_of("h0") == f"mqtt://{own}@0.0.0.0:1883"
    assert at_the_daemon.from_here == daemons
    named = Brokers.of("mqtt://broker.example", None, {}, logins=LOGINS)
    assert named.for_host("h0", ELSEWHERE, towards=None) == f"mqtt://{own}@broker.example"
    assert named.from_here == f"mqtt://lab:{LOGINS.password('lab')}@broker.example"
    shared = Brokers.of(None, None, {"HWD_BROKER": "mqtt://rack:geheim@broker.example"}, logins=LOGINS)
    assert shared.for_host("h0", ELSEWHERE, towards=None) == "mqtt://rack:geheim@broker.example"
    assert shared.from_here == "mqtt://rack:geheim@broker.example"
    assert shared.login_of("h0") is None


LOGINS = Logins(UserRights(testbed="lab", hosts=frozenset({"h0", "h1"})), "secret")
