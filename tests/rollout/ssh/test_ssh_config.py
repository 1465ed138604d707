"""What is read of the configuration of `ssh`, judged by the program itself."""

import os
import re
import select
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.model.ssh import SshPlace
from hwd.rollout.ssh import ssh_config as module
from hwd.rollout.ssh.session import Ssh
from hwd.rollout.ssh.ssh_config import FOLLOWED, MEANINGLESS, REMEDIES, SshConfig
from hwd.rollout.ssh.ssh_settings import MOST_JUMPS, SshSettings
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, LoginError

from ..conftest import make_key, opened

Make = Callable[..., Any]
LEFT_OUT = "UserKnownHostsFile {ssh}/known_hosts\nIdentityFile {ssh}/id_ed25519\nUser {user}\n"
"""Comes last: the real `ssh` would look in the home of its user."""
PLACE = "HostName 127.0.0.1\nPort {port}\n"
AGENT_KEYS = 7
"""More than a server lets one try."""

IN = {
    "include": "Include {ssh}/more\n",
    "include by pattern": "Include {ssh}/mor[e]\n",
    "alias": f"{PLACE}HostKeyAlias lab-h0\nUserKnownHostsFile {{ssh}}/alias\n",
    "quoted": f'{PLACE}UserKnownHostsFile "{{ssh}}/known hosts" {{ssh}}/none\n',
    "comment": "HostName 127.0.0.1\nPort {port} # lab\n",
    "equals and tabs": "HostName=127.0.0.1\n\tPort\t=\t{port}\n",
    "quoted number": 'hostname "127.0.0.1"\nPORT "{port}"\n',
    "crlf": "HostName 127.0.0.1\r\nPort {port}\r\n",
    "latin-1": f"# caf\xe9\n{PLACE}",
    "match final": "Host rack\n  HostName 127.0.0.1\nMatch final host 127.0.0.1\n  Port {port}\n",
    "match exec": f'Match exec "false"\n  Port 9\nMatch exec "test %n = rack"\n  {PLACE}',
    "match of users": f"Match originalhost rack user {{user}} localuser {{user}}\n  {PLACE}",
    "negated": f"Host * !rack\n  Port 9\nHost ra?k\n  {PLACE}",
    "first one counts": f"{PLACE}Port 9\nHostName nowhere.invalid\n",
    "token": f"{PLACE}IdentityFile {{ssh}}/id_%n\n",
    "variable": f"{PLACE}IdentityFile ${{{{HWD_TEST_SSH}}}}/id_rack\n",
    "several keys": f"{PLACE}IdentityFile {{ssh}}/none\nIdentityFile {{ssh}}/stranger\n",
    "hashed": f"{PLACE}UserKnownHostsFile {{ssh}}/hashed\n",
    "patterns": f"{PLACE}UserKnownHostsFile {{ssh}}/patterns\n",
    "without port": f"{PLACE}UserKnownHostsFile {{ssh}}/bare\n",
    "second key of its kind": f"{PLACE}UserKnownHostsFile {{ssh}}/two\n",
    "global file": f"{PLACE}UserKnownHostsFile none\nGlobalKnownHostsFile {{ssh}}/known_hosts\n",
    "family": f"{PLACE}AddressFamily inet\nBindAddress 127.0.0.1\n",
    "algorithms": f"{PLACE}Ciphers aes128-ctr\nMACs hmac-sha2-256\nKexAlgorithms ecdh-sha2-nistp256\n"
    "HostKeyAlgorithms ssh-ed25519\nPubkeyAcceptedAlgorithms ssh-ed25519\n",
    "more algorithms": f"{PLACE}HostKeyAlgorithms +ssh-rsa\nPubkeyAcceptedAlgorithms +ssh-rsa\n",
    "what does not matter": f"{PLACE}ControlMaster auto\nControlPath none\nControlPersist 1\nForwardAgent yes\n"
    "AddKeysToAgent yes\nCanonicalizeHostname yes\nServerAliveInterval 5\nSendEnv LANG\nLocalForward 1 a:1\n"
    "ProxyCommand none\nProxyJump none\nKnownHostsCommand none\nIgnoreUnknown Bo*\nBogus yes\n",
}
LOGGED_IN = [
    *("include", "alias", "quoted", "crlf", "match final", "match exec", "token", "variable", "hashed", "patterns"),
    *("without port", "second key of its kind", "global file", "family", "algorithms", "what does not matter"),
]
"""Those whose host `rack` is logged in to, by `ssh` and by us."""

REFUSED = {
    "ProxyCommand": ("nc %h %p", "Name a jump host"),
    "KnownHostsCommand": ("/bin/true %H", "Write its lines into a file"),
    "RevokedHostKeys": ("/dev/null", "Write @revoked"),
    "CertificateFile": ("/dev/null", r"KEY-cert\.pub"),
    "PubkeyAuthentication": ("false", "by a key alone"),
    "PreferredAuthentications": ("password", "add publickey"),
    "CheckHostIP": ("yes", "by its name alone"),
    "BindInterface": ("lo", "Use BindAddress"),
    "PKCS11Provider": ("/usr/lib/opensc.so", "ssh-add -s"),
}
"""Values of keywords that cannot be followed, and the remedies."""
BY_SSH = {
    "Bogus yes\n": r"config: line 1: Bad configuration option: bogus",
    "\nPort 12x\n": r"config line 2: Bad (port|number)",
    'HostName "a\n': r"config line 1: ",
    "Include {ssh}/config\n": "Too many recursive configuration includes",
}
"""What `ssh` refuses, and its words."""

if shutil.which("ssh") is None:
    pytest.skip("needs ssh. As root: apt-get install openssh-client", allow_module_level=True)


def write(server: Any, text: str) -> Path:
    """The configuration of the client, and the files that those of this page name."""
    ssh: Path = server.home / ".ssh"
    words = {"ssh": ssh, "port": server.port, "user": server.place.user}
    (ssh / "more").write_text(PLACE.format(**words))
    (ssh / "alias").write_text(f"lab-h0 {server.host_key}\n")
    (ssh / "known hosts").write_text(server.known)
    (ssh / "patterns").write_text(
        f"![10.0.0.1]:{server.port},[127.0.*.?]:{server.port} {server.host_key} caf\xe9\n", "latin-1"
    )
    (ssh / "bare").write_text(f"127.0.0.1 {server.host_key}\n")
    if "hashed" in text:
        (ssh / "hashed").write_text(server.known)
        hashing = ["ssh-keygen", "-q", "-H", "-f", str(ssh / "hashed")]
        subprocess.run(hashing, check=True, capture_output=True, timeout=20)
    if "stranger" in text or "/two" in text:
        make_key(ssh / "stranger")
        kind, key, *_ = (ssh / "stranger.pub").read_text().split()
        (ssh / "two").write_text(f"{server.known.split()[0]} {kind} {key}\n{server.known}")
    shutil.copy(ssh / "id_ed25519", ssh / "id_rack")
    config = ssh / "config"
    config.write_text(text.format(**words) + "\nMatch all\n" + LEFT_OUT.format(**words), "latin-1")
    return config


def log_in(server: Any) -> str:
    with opened(server, address="rack", port=None, user=None) as ssh:
        return ssh.run("echo in", within_s=30).out


@pytest.mark.parametrize("name", IN)
def test_settings_are_those_that_ssh_prints_and_who_it_logs_in_to_is_logged_in_to(
    sshd: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(sshd, IN[name])
    monkeypatch.setenv("HWD_TEST_SSH", str(config.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    def said(*words: str) -> str:
        command = ["ssh", "-F", str(config), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = SshSettings.of(SshPlace(address="rack"), sshd.home)
    values = dict(line.split(" ", 1) for line in said("-G", "rack").splitlines() if " " in line)
    assert (found.address, str(found.port), found.user) == (values["hostname"], values["port"], values["user"])
    assert found.known_as == values.get("hostkeyalias", f"[{found.address}]:{found.port}")
    files = " ".join(values[word] for word in ("userknownhostsfile", "globalknownhostsfile"))
    assert " ".join(map(str, found.known_hosts)) == files.removeprefix("none ")
    if name in LOGGED_IN:
        assert said("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "rack", "echo in") == "in\n"
        assert log_in(sshd) == "in\n"


def test_keyword_that_is_not_followed_is_refused_with_its_line_and_what_ssh_refuses_in_its_words(sshd: Any) -> None:
    def refused(words: str) -> None:
        with pytest.raises(ConfigError, match=words) as error:
            log_in(sshd)
        assert "\n" not in str(error.value)

    more = sshd.home / ".ssh/refused"
    for word, (value, remedy) in REFUSED.items():
        more.write_text(f"# of the lab\nHost rack\n  {word}={value}\n")
        write(sshd, f"{PLACE}Include {more}\n")
        said = f"{word.lower()} {re.escape(value)}: hwd does not follow this keyword .*{remedy}"
        refused(rf"^{more}:3: rack: {said}")
    for text, words in BY_SSH.items():
        write(sshd, text)
        refused(rf"ssh refuses its configuration for rack: .*{words}")
    config = write(sshd, PLACE)
    config.unlink()
    os.mkfifo(config)
    refused(r"config: is no regular file, but a FIFO")
    assert sshd.children == [], "nobody was connected to"


@pytest.mark.parametrize("kind", ["included pipe", "program that hangs"])
def test_configuration_that_does_not_end_is_given_up(
    sshd: Any, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = f'Match exec "echo $$ > {tmp_path}/pid; sleep 600"\n'
    if kind == "included pipe":
        os.mkfifo(tmp_path / "pipe")
        hangs = f"Include {tmp_path}/pipe\n"
    write(sshd, hangs)
    monkeypatch.setattr(module, "READ_S", 1.0)
    with pytest.raises(ConfigError, match=r"has not read its configuration within 1 s\. Is it a pipe"):
        log_in(sshd)
    if kind != "included pipe":
        try:
            program = os.pidfd_open(int((tmp_path / "pid").read_text()))
        except ProcessLookupError:
            return
        assert select.select([program], [], [], 30)[0], "it was left running"
        os.close(program)


def test_every_keyword_of_ssh_is_followed_or_meaningless_or_refused_with_a_remedy_and_the_page_names_them() -> None:
    printed = subprocess.run(["ssh", "-G", "-F", "none", "h0"], capture_output=True, text=True, check=True, timeout=60)
    words = {line.split()[0].lower() for line in printed.stdout.splitlines()}
    meaningless = {word for words in MEANINGLESS.values() for word in words.split()}
    assert words - {*FOLLOWED.split()} - meaningless - REMEDIES.keys() == set()
    page = (Path(__file__).parents[3] / "docs/how-to/roll-out-agents.md").read_text().lower()
    assert [word for word in (*FOLLOWED.split(), *REMEDIES) if f"`{word}" not in page and word != "host"] == []


def test_keyword_that_nobody_has_heard_of_and_a_configuration_without_a_program_that_can_read_it_are_refused(
    sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an `ssh` to come: it is not ignored."""
    write(sshd, PLACE)
    real = shutil.which("ssh")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(
        f'#!/bin/sh\n{real} "$@"\ncase "$*" in *none*) echo quantumties no;; *) echo quantumties maybe;; esac\n'
    )
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match=r"rack: quantumties maybe: hwd does not follow"):
        log_in(sshd)
    config = write(sshd, PLACE)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=rf"{config}: only OpenSSH's client can read it"):
        log_in(sshd)
    config.unlink()
    place = sshd.place
    ssh = Ssh.open("h0", place, SystemClock(), home=sshd.home)
    ssh.close()


def test_several_jump_hosts_are_gone_through_in_their_order(make_sshd: Make) -> None:
    first, second, server = make_sshd(), make_sshd(), make_sshd()
    write(server, f"{PLACE}ProxyJump {first.place},ssh://{second.place}\n")
    config = server.home / ".ssh/config"
    config.write_text(config.read_text().replace("HostName", "Host rack\nHostName", 1))
    assert log_in(server) == "in\n"
    assert (len(first.children), len(second.children)) == (1, 1)
    log = (second.folder / "sshd.log").read_text()
    assert f"port {first.port}" not in log


@contextmanager
def agent(tmp_path: Path, *keys: Path, confirm: bool = False, **environment: str) -> Iterator[Path]:
    """`confirm`: it asks before each signature, and nobody allows it."""
    path = tmp_path / "agent"
    denies = {**os.environ, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE, env=denies)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        for key in keys:
            env = {**os.environ, "SSH_AUTH_SOCK": str(path), "SSH_ASKPASS_REQUIRE": "force", **environment}
            subprocess.run(["ssh-add", "-q", *(["-c"] if confirm else []), str(key)], check=True, env=env, timeout=60)
        yield path
    finally:
        process.terminate()
        process.communicate()


def strangers(folder: Path) -> list[Path]:
    paths = [folder / f"stranger{n}" for n in range(AGENT_KEYS)]
    for path in paths:
        make_key(path)
    return paths


def test_key_that_a_public_file_names_is_the_only_one_of_the_agent_that_is_tried(
    sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sshd.home / ".ssh/id_ed25519"
    with agent(tmp_path, *strangers(tmp_path), key) as path:
        key.unlink()
        config = sshd.home / ".ssh/config"
        config.write_text(f"Host rack\n{PLACE.format(port=sshd.port)}IdentityFile /nowhere\n")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        words = r"it ended the login after 6 keys \(.*before 2 more: .*MaxAuthTries.*IdentitiesOnly yes"
        with pytest.raises(LoginError, match=words):
            Ssh.open("h0", SshPlace(address="rack"), SystemClock(), home=sshd.home)
        with config.open("a") as more:
            more.write(f"IdentitiesOnly yes\nIdentityFile {key}.pub\n")
        assert log_in(sshd) == "in\n"
        with config.open("a") as more:
            more.write("IdentityAgent none\n")
        with pytest.raises(
            LoginError, match=r"id_ed25519\.pub is a public key, whose private key the SSH agent does not"
        ):
            log_in(sshd)
        monkeypatch.delenv("SSH_AUTH_SOCK")
        config.write_text(config.read_text().replace("IdentityAgent none", f'IdentityAgent "{path}"'))
        assert log_in(sshd) == "in\n"


def test_agent_that_does_not_sign_is_named_at_once(
    sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(sshd, PLACE)
    with agent(tmp_path, sshd.home / ".ssh/id_ed25519", confirm=True) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        with pytest.raises(LoginError, match=r"the SSH agent does not sign with .*: it refuses .*Unlock it, allow it"):
            log_in(sshd)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_of_other_kinds_sign_in_the_agent(
    make_sshd: Make, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(tmp_path / "key", kind, passphrase="secret")
    server = make_sshd(f"AuthorizedKeysFile={tmp_path}/key.pub")
    ask = tmp_path / "ask"
    ask.write_text("#!/bin/sh\necho secret\n")
    ask.chmod(0o755)
    write(server, f"{PLACE}IdentitiesOnly yes\nIdentityFile {tmp_path}/key\n")
    with agent(tmp_path, tmp_path / "key", SSH_ASKPASS=str(ask)) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        (tmp_path / "key.pub").rename(tmp_path / "moved.pub")  # its public part stands in front of the private one too
        server.options = (f"AuthorizedKeysFile={tmp_path}/moved.pub",)
        assert log_in(server) == "in\n"


def test_certificate_beside_its_key_is_used(make_sshd: Make, tmp_path: Path) -> None:
    make_key(tmp_path / "ca")
    server = make_sshd(f"TrustedUserCAKeys={tmp_path}/ca.pub", "AuthorizedKeysFile=none")
    write(server, PLACE)
    key = server.home / ".ssh/id_ed25519"
    sign = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "me", "-n", server.place.user, f"{key}.pub"]
    with pytest.raises(LoginError, match="it does not take"):
        log_in(server)
    subprocess.run(sign, check=True, timeout=20)
    assert log_in(server) == "in\n"


def test_keys_that_are_too_short_or_not_allowed_are_not_tried_and_algorithms_that_nobody_has_are_named(
    make_sshd: Make, tmp_path: Path
) -> None:
    server = make_sshd()
    make_key(tmp_path / "rsa", "rsa")
    write(server, f"{PLACE}RequiredRSASize 8192\nPubkeyAcceptedAlgorithms rsa-sha2-512\nIdentityFile {tmp_path}/rsa\n")
    words = r"rsa has \d+ bits, and RequiredRSASize is 8192; PubkeyAcceptedAlgorithms does not allow ssh-ed25519"
    with pytest.raises(LoginError, match=words):
        log_in(server)
    write(server, f"{PLACE}KexAlgorithms diffie-hellman-group18-sha512\n")
    with pytest.raises(
        ConfigError, match="KexAlgorithms of the configuration of ssh allows diffie-hellman-group18-sha512"
    ):
        log_in(server)


def test_configuration_of_the_user_is_read_where_no_home_is_named_and_so_many_jump_hosts_and_no_more(
    tmp_path: Path,
) -> None:
    """`ssh` finds it by itself, and that of the system."""
    found = SshConfig.read(SshPlace(address="rack", user="me", port=2022), None)
    printed = subprocess.run(
        ["ssh", "-G", "-l", "me", "-p", "2022", "rack"], capture_output=True, text=True, check=True
    )
    for word in ("user", "port", "hostname", "userknownhostsfile", "stricthostkeychecking"):
        assert f"{word} {found.first(word)}\n" in printed.stdout
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host rack\n  ProxyJump last\n")
    rack = SshPlace(address="rack")
    way = tuple(SshPlace(address=f"via{number}") for number in range(MOST_JUMPS))
    assert SshSettings.of(rack, tmp_path, way[1:]).jump == SshPlace(address="last")
    with pytest.raises(ConfigError, match=f"rack -> last: more than {MOST_JUMPS} jump hosts in a row"):
        SshSettings.of(rack, tmp_path, way)
