"""The page in a real browser that has no network."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.report.page.html import html

from .stage import make_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-gpu",
)
"""So that the browser asks for little of its own."""
ITS_OWN = re.compile(
    rb"//(clients\d|update|accounts|android\.clients|www|optimizationguide-pa)\.google(apis)?\.com|\.google(apis)?\.com:443|gvt1\.com"
)
"""What it asks for all the same, whatever page it shows."""


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A proxy that answers nothing: its port, and the first line of whoever asked."""
    asked: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def take() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(4096).split(b"\r\n")[0])

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield server.getsockname()[1], asked
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def shown(page: Path, home: Path, port: int) -> str:
    """The page as the browser has it after it was laid out."""
    assert CHROMIUM is not None
    # Chromium has no sandbox of its own for root.
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    proxy = (f"--proxy-server=http://127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>")
    done = subprocess.run(
        [CHROMIUM, "--headless", *QUIET, *sandbox, *proxy, f"--user-data-dir={home}", "--virtual-time-budget=2000",
         "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=50, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_page_asks_for_nothing_where_another_page_would_be_heard_to_ask(tmp_path: Path) -> None:
    page, other = tmp_path / "report.html", tmp_path / "page.html"
    page.write_text(html([make_run("a"), make_run("b", virtual_time=True)]))
    other.write_text('<!doctype html><img src="http://example.invalid/x.png">')
    with listening() as (port, asked):
        dom = shown(page, tmp_path / "home", port)
        asks = [one for one in asked if one]  # a connection that it closes unused asks for nothing
        assert [one for one in asks if not ITS_OWN.search(one) or b"fonts." in one] == []
        shown(other, tmp_path / "home", port)
    assert any(b"example.invalid/x.png" in one for one in asked)
    assert dom.count("<svg") >= 6
    assert "against run a" in dom
