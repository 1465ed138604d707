import socket

import pytest

from hwd.client import Client
from hwd_drivers.kit.errors import DeadlineError, LinkError


def test_a_daemon_that_is_not_there_is_unreachable_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(LinkError, match="`hwd serve TESTBED` starts one"):
        client.status()


def test_a_daemon_that_is_silent_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with Client(url) as client, pytest.raises(DeadlineError, match=r"no answer to POST .* within 0.05 s"):
            client.apply_hash("0" * 12, within_s=0.05)
