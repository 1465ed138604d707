"""Who may do what, and the passwords."""

import re
from pathlib import Path

import pytest

from hwd.bus.broker import Logins, UserRights
from hwd.bus.broker.mosquitto import mosquitto_files
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import RandomIds

RIGHTS = UserRights(testbed="lab", hosts=frozenset({"h0", "h1"}))
LEAVES = ("state", "birth", "event", "reply", "ask", "clock", "ack", "command", "answer")


def test_a_host_publishes_and_reads_its_own_topics_and_no_others() -> None:
    publishes = [leaf for leaf in LEAVES if RIGHTS.may_publish("lab.h0", f"hwd/1/lab/h0/{leaf}")]
    reads = [leaf for leaf in LEAVES if RIGHTS.may_read("lab.h0", f"hwd/1/lab/h0/{leaf}")]
    assert publishes == ["state", "birth", "event", "reply", "ask", "clock"]
    assert reads == ["clock", "ack", "command", "answer"]
    for leaf in LEAVES:
        for name in (f"hwd/1/lab/h1/{leaf}", f"hwd/1/lab/runs/{leaf}", f"hwd/1/other/h0/{leaf}", f"hwd/1/lab/+/{leaf}"):
            assert not RIGHTS.may_publish("lab.h0", name)
            assert not RIGHTS.may_read("lab.h0", name)


def test_a_host_is_the_client_of_its_agent_and_names_what_it_reads_and_a_user_of_nobody_may_do_nothing() -> None:
    for wide in ("#", "+/#", "hwd/#", "hwd/1/lab/#", "hwd/1/lab/h0/#", "hwd/1/lab/h0/+", "$SYS/#"):
        assert not RIGHTS.may_read("lab.h0", wide), wide
    for user in ("", "h0", "lab.h2", "lab.", ".h0", "other.h0", "lab.h0.h1", "other"):
        assert not RIGHTS.may_read(user, "hwd/1/lab/h0/ack"), user
        assert not RIGHTS.may_publish(user, "hwd/1/lab/h0/birth"), user
        assert not RIGHTS.may_be(user, "hwd-lab-h0"), user
    clients = ("hwd-lab-h0", "hwd-lab-h0.doctor", "hwd-lab-h1", "hwd-lab-h0x", "")
    assert [one for one in clients if RIGHTS.may_be("lab.h0", one)] == ["hwd-lab-h0", "hwd-lab-h0.doctor"]


def test_the_daemon_has_its_testbed_and_nothing_else() -> None:
    assert RIGHTS.may_publish("lab", "hwd/1/lab/h0/command")
    assert RIGHTS.may_publish("lab", "hwd/1/lab/runs/r1")
    assert RIGHTS.may_read("lab", "hwd/1/lab/+/event")
    assert not RIGHTS.may_read("lab", "hwd/1/lab2/+/event")
    assert not RIGHTS.may_read("lab", "#")
    assert not RIGHTS.may_publish("lab", "hwd/1/other/h0/command")


def test_passwords_are_drawn_once_and_differ_and_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    first = Logins.from_folder(RIGHTS, tmp_path, RandomIds()).users
    assert list(first) == ["lab", "lab.h0", "lab.h1"]
    assert len(set(first.values())) == 3
    assert all(re.fullmatch("[0-9a-f]{40}", password) for password in first.values())
    assert Logins.from_folder(RIGHTS, tmp_path, RandomIds()).users == first
    assert (tmp_path / "broker-secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "broker-secret").chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it"):
        Logins.from_folder(RIGHTS, tmp_path, RandomIds())


def test_a_url_without_a_user_gets_the_login_and_another_stays(tmp_path: Path) -> None:
    logins = Logins.from_folder(RIGHTS, tmp_path, RandomIds())
    url = BrokerUrl.parse(logins.for_host("h1", "mqtts://broker.example:8883"))
    assert (url.host, url.port, url.tls) == ("broker.example", 8883, True)
    assert (url.user, url.password) == ("lab.h1", logins.password("lab.h1"))
    assert BrokerUrl.parse(logins.for_daemon("mqtt://[::1]:1")).user == "lab"
    for url_as_it_is in ("mqtt://u:p@b:1", "mqtt://u@b:1", "unix:/run/m.sock"):
        assert logins.for_host("h1", url_as_it_is) == url_as_it_is


def test_the_files_of_mosquitto_are_the_same_again_and_hold_no_password(tmp_path: Path) -> None:
    logins = Logins.from_folder(RIGHTS, tmp_path, RandomIds())
    files = mosquitto_files(logins, Path("/etc/mosquitto/hwd"))
    assert files == mosquitto_files(Logins.from_folder(RIGHTS, tmp_path, RandomIds()), Path("/etc/mosquitto/hwd"))
    assert not any(password in text for password in logins.users.values() for text in files.values())
    assert "topic readwrite hwd/1/lab/#" in files["acl"]
    assert "user lab.h1\ntopic write hwd/1/lab/h1/state\n" in files["acl"]
    with pytest.raises(ConfigError, match="with a blank"):
        mosquitto_files(logins, Path("/a b"))
