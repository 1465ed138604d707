"""Real OpenSSH servers of the test's own user, one process a connection, and places to log in from."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hwd.model.ssh import SshPlace
from hwd.model.testbed import Testbed
from hwd.rollout.layout import Layout
from hwd.rollout.ssh.session import Ssh
from hwd_drivers.core.clock import SystemClock

from ..machines.fixtures import machine_image, machines, pytest_collection_modifyitems, pytest_runtest_makereport

__all__ = ["machine_image", "machines", "pytest_collection_modifyitems", "pytest_runtest_makereport"]

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")


NO_PROFILE = "SHLVL=2"
"""A shell that is not the first reads no start file of the user: it may change its path, and take a second."""


@dataclass(slots=True)
class OpenSsh:
    """`sshd -i` on a listener of ours: the port is free, and nothing stays when it is closed.
    `folder/home/.ssh` is the client's.
    """

    folder: Path
    listener: socket.socket
    host_key: str
    children: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    options: tuple[str, ...] = ()
    _thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def place(self) -> SshPlace:
        return SshPlace(address="127.0.0.1", port=self.port, user=_user())

    @property
    def known(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="sshd")
        self._thread.start()

    def hang_up(self) -> None:
        """End every connection, as a host that crashes does."""
        for child in self.children:
            subprocess.run(["pkill", "-KILL", "-P", str(child.pid)], check=False)
            child.kill()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        assert self._thread is not None
        self._thread.join()
        self.listener.close()
        self.hang_up()
        for child in self.children:
            child.wait()

    def _serve(self) -> None:
        assert SSHD is not None
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                more = [word for option in self.options for word in ("-o", option)]
                command = [SSHD, "-i", "-e", "-f", str(self.folder / "sshd_config"), *more]
                with (self.folder / "sshd.log").open("ab") as log:
                    self.children.append(
                        subprocess.Popen(command, stdin=connection.fileno(), stdout=connection.fileno(), stderr=log)
                    )


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., OpenSsh]]:
    """Servers, each with a key of its own; the client in `home` knows them and has a key that they take."""
    if SSHD is None:
        pytest.skip("needs sshd. As root: apt-get install openssh-server")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where it keeps those away who are not logged in
    made: list[OpenSsh] = []
    home = tmp_path / "home"
    ssh = home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    make_key(ssh / "id_ed25519")

    def make(*options: str, known: bool = True) -> OpenSsh:
        folder = tmp_path / f"sshd{len(made)}"
        folder.mkdir()
        make_key(folder / "host")
        (folder / "home").symlink_to(home)
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {ssh}/id_ed25519.pub\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nLogLevel VERBOSE\nPidFile none\nSetEnv {NO_PROFILE}\n"
        )
        listener = socket.create_server(("127.0.0.1", 0))
        kind, key, *_ = (folder / "host.pub").read_text().split()
        server = OpenSsh(folder=folder, listener=listener, host_key=f"{kind} {key}", options=options)
        if known:
            with (ssh / "known_hosts").open("a") as file:
                file.write(server.known)
        server.start()
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()


@pytest.fixture
def cache(request: pytest.FixtureRequest) -> Path:
    """Wheels are kept from one run of the tests to the next."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("hwd-rollout")


@pytest.fixture
def sshd(make_sshd: Callable[..., OpenSsh]) -> OpenSsh:
    return make_sshd()


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> None:
    bits = ["-b", "2048"] if kind == "rsa" else []
    command = ["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-f", str(path)]
    subprocess.run(command, check=True, timeout=60)


@contextmanager
def opened(server: OpenSsh, **changes: Any) -> Iterator[Ssh]:
    """A session with the place of the server, or one that differs."""
    ssh = Ssh.open("h0", replace(server.place, **changes), SystemClock(), home=server.home)
    try:
        yield ssh
    finally:
        ssh.close()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(prefix=str(tmp_path / "host"), unit="")


LAB = Testbed(name="lab", switches={}, hosts={}, strands=())


def quiet(host: str, words: str) -> None:
    """Nobody listens."""


def _user() -> str:
    import getpass

    return getpass.getuser()
