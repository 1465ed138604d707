"""Ssh against real OpenSSH servers: who is let in, who is refused, and what is said of it."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwd.rollout.ssh.session import Ssh
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, FailedError, LinkError, LoginError

from ..conftest import make_key, opened

Make = Callable[..., Any]


def test_a_server_that_hangs_up_leaves_one_error_and_no_traceback_of_a_library(tmp_path: Path) -> None:
    """In a process of its own: here pytest takes what is logged."""
    with socket.create_server(("127.0.0.1", 0)) as rude:
        hanging_up = threading.Thread(target=lambda: rude.accept()[0].close())
        hanging_up.start()
        program = (
            "from pathlib import Path; from hwd.model.ssh import SshPlace; from hwd.rollout.ssh.session import Ssh; "
            "from hwd_drivers.core.clock import SystemClock; from hwd_drivers.core.errors import LinkError\n"
            f"try: Ssh.open('h0', SshPlace.parse('me@127.0.0.1:{rude.getsockname()[1]}'), SystemClock(), "
            f"home=Path({str(tmp_path)!r}), connect_s=5)\n"
            "except LinkError as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
        hanging_up.join()
    assert done.stdout.startswith("h0: me@[127.0.0.1]:")
    assert done.stderr == ""


def test_files_are_copied_whole_and_nobody_else_can_read_them(sshd: Any, tmp_path: Path) -> None:
    source = tmp_path / "wheel"
    source.write_bytes(bytes(range(250)) * 1200)
    over: list[int] = []
    target = tmp_path / "there"
    target.mkdir()
    with opened(sshd) as ssh:
        assert ssh.local_address == "127.0.0.1"
        ssh.put(str(target), {"wheel": source, "text": b"secret"}, on_bytes=over.append)
    assert (target / "wheel").read_bytes() == source.read_bytes()
    assert (target / "text").read_bytes() == b"secret"
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o600}
    assert sum(over) == 300_006


def test_a_host_that_nobody_vouches_for_is_refused_with_its_fingerprint_and_the_line_to_add(make_sshd: Make) -> None:
    server = make_sshd(known=False)
    with pytest.raises(ConfigError, match="does not know this host") as error, opened(server):
        pass
    assert _fingerprint(server) in str(error.value)
    look = re.search(r"shows the same \((.+?)\), add", str(error.value))
    assert look is not None
    make_key(server.folder / "ssh_host_rsa_key", "rsa")  # as hosts have several
    make_key(server.folder / "ssh_host_ed25519_key", "ed25519")
    command = look[1].replace("/etc/ssh", str(server.folder))
    shown = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, timeout=20).stdout
    assert [line.rsplit(" ", 1)[1] for line in shown.splitlines()] == ["(ED25519)", "(RSA)"]
    line = re.escape(server.known.strip())
    assert re.search(rf"add this line to that file: {line}$", str(error.value))
    (server.home / ".ssh" / "known_hosts").write_text(server.known)
    with opened(server) as ssh:
        assert ssh.run("true", within_s=10).status == 0


def test_a_changed_host_key_is_refused_with_both_fingerprints_and_the_remedy(make_sshd: Make) -> None:
    server, other = make_sshd(known=False), make_sshd(known=False)
    (server.home / ".ssh" / "known_hosts").write_text(server.known.replace(server.host_key, other.host_key))
    with pytest.raises(ConfigError, match="the known key is another") as error, opened(server):
        pass
    assert _fingerprint(server) in str(error.value)
    assert _fingerprint(other) in str(error.value)
    known = server.home / ".ssh" / "known_hosts"
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f {known}, and" in str(error.value)
    assert (server.home / ".ssh" / "known_hosts").read_text().count("\n") == 1, "it was not taken over"


@pytest.mark.parametrize("known_too", [True, False])
def test_a_revoked_host_key_is_refused_whatever_else_vouches_for_it(make_sshd: Make, known_too: bool) -> None:
    server = make_sshd(known=known_too)
    known = server.home / ".ssh" / "known_hosts"
    before = known.read_text() if known_too else ""
    for patterns in ("*", "127.0.0.*", f"[127.0.0.1]:{server.port}", "127.0.0.1"):
        known.write_text(f"{before}@revoked {patterns} {server.host_key}\n")
        said = rf"and {known}:{2 if known_too else 1} revokes that key"
        with pytest.raises(ConfigError, match=said) as error, opened(server):
            pass
        assert _fingerprint(server) in str(error.value)
    known.write_text(f"{server.known}@revoked *,!127.0.0.1 {server.host_key}\n@revoked gate {server.host_key}\n")
    with opened(server) as ssh:  # a key that is revoked for other hosts is taken
        assert ssh.run("true", within_s=10).status == 0


def test_an_authority_of_certificates_vouches_for_nobody_and_that_is_said(make_sshd: Make) -> None:
    """The server has a certificate of it, which OpenSSH would take."""
    server = make_sshd(known=False)
    known = server.home / ".ssh" / "known_hosts"
    make_key(server.folder / "ca", "ed25519")
    sign = ["ssh-keygen", "-q", "-s", str(server.folder / "ca"), "-h", "-I", "h0", str(server.folder / "host.pub")]
    subprocess.run(sign, check=True, timeout=20)
    with (server.folder / "sshd_config").open("a") as config:
        config.write(f"HostCertificate {server.folder}/host-cert.pub\n")
    known.write_text(f"@cert-authority * {(server.folder / 'ca.pub').read_text()}")
    words = rf"does not know this host \({known}:1 names a certificate authority for it: those are not checked here"
    with pytest.raises(ConfigError, match=words), opened(server):
        pass
    with known.open("a") as file:
        file.write(server.known)
    with opened(server) as ssh:
        assert ssh.run("true", within_s=10).status == 0


def test_a_key_that_is_not_authorized_is_refused_with_the_remedy_and_one_with_a_passphrase_needs_an_agent(
    sshd: Any, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    with (
        pytest.raises(
            LoginError,
            match=rf"it does not take {tmp_path}/other\. .* ssh-copy-id -p {sshd.port} {sshd.place.user}@127\.0\.0\.1",
        ),
        opened(sshd, key=str(tmp_path / "other")),
    ):
        pass
    path = sshd.home / ".ssh" / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(path)], check=True)
    with pytest.raises(LoginError, match="ssh-add"), opened(sshd, key=str(path)):
        pass


def test_a_key_of_the_ssh_agent_is_taken(sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sshd.home / ".ssh" / "id_ed25519"
    agent = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        subprocess.run(["ssh-add", "-q", str(path)], check=True)
        path.unlink()
        with opened(sshd) as ssh:
            assert ssh.run("echo in", within_s=10).out == "in\n"
    finally:
        process.terminate()
        process.communicate()


def test_a_host_behind_a_jump_host_is_reached_and_one_that_does_not_forward_is_named_with_the_remedy(
    make_sshd: Make,
) -> None:
    gate, server = make_sshd(), make_sshd()
    with opened(server, jump=gate.place) as ssh:
        assert ssh.run("echo $SSH_CONNECTION", within_s=10).out.split()[3] == str(server.port)
        assert ssh.local_address is None
    assert len(gate.children) == 1, "the way did not lead through it"
    gate, server = make_sshd("AllowTcpForwarding=no"), make_sshd()
    with pytest.raises(LinkError, match=r"h0: jump host: .*AllowTcpForwarding"), opened(server, jump=gate.place):
        pass


def test_the_users_own_ssh_config_is_read_and_a_jump_host_that_its_pattern_leaves_out_is_jumped_through(
    make_sshd: Make,
) -> None:
    gate, server = make_sshd(), make_sshd()
    config = server.home / ".ssh" / "config"
    config.write_text(
        f"Host rack-h0\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.place.user}\n"
        f"  ProxyJump {gate.place}\n  IdentityFile {server.home}/.ssh/id_ed25519\n"
    )
    with opened(server, address="rack-h0", port=None, user=None) as ssh:
        assert ssh.run("echo in", within_s=10).out == "in\n"
        assert ssh.local_address is None
    config.write_text(f"Host gate\n  HostName 127.0.0.1\n  Port {gate.port}\nHost * !gate\n  ProxyJump gate\n")
    with opened(server) as ssh:
        assert ssh.run("echo in", within_s=10).out == "in\n"
        assert ssh.local_address is None


def test_jump_hosts_that_lead_in_a_circle_or_without_end_are_named(sshd: Any) -> None:
    path, h0 = sshd.home / ".ssh" / "config", re.escape(str(sshd.place))
    chain = "".join(f"Host gate{n}\n  ProxyJump gate{n + 1}\n" for n in range(100))
    for config, words in {
        "Host *\n  ProxyJump gate\n": rf"{path}: .*for gate: jumphost loop via gate\. .*Host \* !gate",
        "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost *\n  ProxyJump a\n": (
            rf"{path}: .*ProxyJump leads in a circle: {h0} -> a -> b -> a\."
        ),
        f"{chain}Host 127.0.0.1\n  ProxyJump gate0\n": "more than 8 jump hosts in a row",
    }.items():
        path.write_text(config)
        with pytest.raises(ConfigError, match=words), opened(sshd):
            pass
    assert sshd.children == [], "nobody was connected to"


def test_nobody_there_is_said_with_the_remedy_and_a_server_that_says_nothing_is_given_up_in_time(sshd: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(LinkError, match=r"cannot connect: .*Is the host on"), opened(sshd, port=port):
        pass
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = replace(sshd.place, port=silent.getsockname()[1])
        with pytest.raises(LinkError, match=r"no SSH greeting within 0.3 s"):
            Ssh.open("h0", place, SystemClock(), home=sshd.home, connect_s=0.3)


def test_a_program_that_hangs_a_host_that_goes_away_and_a_folder_that_cannot_be_written_to_are_said(sshd: Any) -> None:
    with opened(sshd) as ssh, pytest.raises(DeadlineError, match=r"h0: sleep 60: did not end within 2 s"):
        ssh.run("sleep 60", within_s=2)
    with opened(sshd) as ssh, pytest.raises(FailedError, match=r"h0: /nowhere/a: cannot be written"):
        ssh.put("/nowhere", {"a": b"b"}, on_bytes=lambda _: None)
    with opened(sshd) as ssh:
        threading.Timer(0.2, sshd.hang_up).start()
        with pytest.raises(LinkError, match="the SSH connection broke"):
            ssh.run("echo begun; sleep 60", within_s=20)


def test_a_disk_that_gets_full_on_the_way_is_said(make_sshd: Make, tmp_path: Path) -> None:
    server = make_sshd("ForceCommand=ulimit -f 100; trap '' XFSZ; eval \"$SSH_ORIGINAL_COMMAND\"")
    (tmp_path / "big").write_bytes(bytes(8_000_000))
    with (
        opened(server) as ssh,
        pytest.raises(FailedError, match=r"/wheel: cannot be written: cat: .*File too large\. Is the disk of the host"),
    ):
        ssh.put(str(tmp_path), {"wheel": tmp_path / "big"}, on_bytes=lambda _: None)


def _fingerprint(server: Any) -> str:
    said = subprocess.run(
        ["ssh-keygen", "-lf", str(server.folder / "host.pub")], capture_output=True, text=True, check=True
    )
    return said.stdout.split()[1]
