"""Client: one daemon over HTTP, a method for each call. What the daemon raised is raised here again.

with Client.find() as hwd:
    plan = hwd.plan(what="pairs rail=0")
    hwd.apply(hash=plan["hash"])
"""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from hwd.client.events import Event, EventReader, document_of
from hwd.client.find import find_daemon
from hwd.client.problem import raise_for_problem
from hwd_drivers.kit.documents import Document
from hwd_drivers.kit.errors import DeadlineError, HwdError, LinkError

Data = dict[str, Any]
"""One JSON object as the daemon sent it."""

ANSWER_S = 30.0
"""For calls that drive nothing; a read of every switch is among them."""
DRIVE_S = 60.0
"""On top of what an apply waits for anyway."""


class Client:
    """Close it, or use it as a context. Raises HwdError: LinkError when the daemon cannot be reached."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # No proxy and no .netrc: a daemon is near, and its token is nobody else's.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=ANSWER_S, trust_env=False)

    @classmethod
    def find(cls, url: str | None = None, environment: Mapping[str, str] = os.environ) -> Self:
        """The daemon that `--url`, HWD_URL or the run directory names; HWD_TOKEN is the token."""
        return cls(find_daemon(url, environment), token=environment.get("HWD_TOKEN"))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what is

    def status(self) -> Data:
        return self._object("GET", "/api/v1/status")

    def switches(self) -> list[Data]:
        return self._list("/api/v1/switches")

    def hosts(self) -> list[Data]:
        return self._list("/api/v1/hosts")

    def reconfigurations(self) -> list[Data]:
        """Those under way."""
        return self._list("/api/v1/reconfigurations")

    # --- reconfigurations

    def plan(
        self,
        *,
        what: str = "",
        file: tuple[str, str] | None = None,
        mode: str = "update",
        lease: str | None = None,
        ready_within_s: float | None = None,
        confirm_within_s: float | None = None,
    ) -> Data:
        """`file` is the name and the text of a topology file, in place of `what`."""
        body = _wanted(what, file, mode, lease, ready_within_s, confirm_within_s)
        return self._object("POST", "/api/v1/plans", body)

    def apply(
        self,
        *,
        what: str = "",
        file: tuple[str, str] | None = None,
        mode: str = "update",
        lease: str | None = None,
        ready_within_s: float | None = None,
        confirm_within_s: float | None = None,
    ) -> Data:
        """Returns when the switches are read back and the links, where asked for, are ready."""
        body = _wanted(what, file, mode, lease, ready_within_s, confirm_within_s)
        return self._object("POST", "/api/v1/reconfigurations", body, within_s=DRIVE_S + (ready_within_s or 0.0))

    def apply_hash(self, hash: str, *, within_s: float = 10 * DRIVE_S) -> Data:
        """Apply a plan of this daemon; `within_s` is for the whole of it."""
        return self._object("POST", "/api/v1/reconfigurations", {"hash": hash}, within_s=within_s)

    def confirm(self, reconfiguration: str | None = None) -> Data:
        """None: the only one under way."""
        return self._object("POST", f"/api/v1/reconfigurations/{reconfiguration or '-'}/confirm", within_s=DRIVE_S)

    def roll_back(self, reconfiguration: str | None = None) -> Data:
        """None: the only one under way."""
        return self._object("POST", f"/api/v1/reconfigurations/{reconfiguration or '-'}/rollback", within_s=DRIVE_S)

    # --- runs

    def start_run(self, *, text: str, file: str, parameters: Mapping[str, str] | None = None) -> Data:
        """{run, playbook, steps, after}: `events(after=...)` has all of it."""
        body = {"text": text, "file": file, "parameters": dict(parameters or {})}
        return self._object("POST", "/api/v1/runs", body)

    def runs(self) -> list[Data]:
        return self._list("/api/v1/runs")

    def run(self, id: str) -> Data:
        return self._object("GET", f"/api/v1/runs/{_part(id)}")

    def run_documents(self, id: str) -> list[Document]:
        return [document_of(data) for data in self._list(f"/api/v1/runs/{_part(id)}/documents")]

    def abort(self, run: str, *, by: str) -> Data:
        return self._object("POST", f"/api/v1/runs/{_part(run)}/abort", {"by": by})

    # --- leases

    def leases(self) -> list[Data]:
        return self._list("/api/v1/leases")

    def take_lease(self, *, holder: str, ports: Sequence[str], for_s: float) -> Data:
        return self._object("POST", "/api/v1/leases", {"holder": holder, "ports": list(ports), "for_s": for_s})

    def renew_lease(self, lease: str, *, for_s: float) -> Data:
        return self._object("POST", f"/api/v1/leases/{_part(lease)}/renew", {"for_s": for_s})

    def release_lease(self, lease: str) -> Data:
        return self._object("POST", f"/api/v1/leases/{_part(lease)}/release")

    def kick_lease(self, lease: str) -> Data:
        return self._object("POST", f"/api/v1/leases/{_part(lease)}/kick")

    # --- events

    @contextmanager
    def events(self, *, after: str | None = None, kinds: Iterable[str] = ()) -> Generator[Generator[Event]]:
        """Events from now on, or from after an id; comes back by itself when the connection is lost.

        with client.events(kinds=["run."]) as events:
            for event in events: ...
        """
        reader = EventReader(self._http, after=after, kinds=kinds)
        events = reader.events()
        try:
            yield events
        finally:
            reader.close()
            events.close()

    # --- inside

    def _object(self, method: str, path: str, body: object = None, *, within_s: float = ANSWER_S) -> Data:
        data: Data = self._call(method, path, body, within_s)
        return data

    def _list(self, path: str) -> list[Data]:
        data: list[Data] = self._call("GET", path, None, ANSWER_S)
        return data

    def _call(self, method: str, path: str, body: object, within_s: float) -> Any:
        try:
            response = self._http.request(method, path, json=body, timeout=httpx.Timeout(within_s, connect=5.0))
        except httpx.TimeoutException as error:
            raise DeadlineError(f"daemon {self.url}: no answer to {method} {path} within {within_s:g} s") from error
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        raise_for_problem(response)
        return response.json()


def unreachable(url: str, error: Exception) -> HwdError:
    return LinkError(
        f"daemon {url}: cannot be reached: {error}. `hwd serve TESTBED` starts one; --url or HWD_URL names another"
    )


def _wanted(
    what: str,
    file: tuple[str, str] | None,
    mode: str,
    lease: str | None,
    ready_within_s: float | None,
    confirm_within_s: float | None,
) -> Data:
    named = {"what": what} if file is None else {"file": {"name": file[0], "text": file[1]}}
    return {
        **named,
        "mode": mode,
        "lease": lease,
        "ready_within_s": ready_within_s,
        "confirm_within_s": confirm_within_s,
    }


def _part(id: str) -> str:
    """An id as one part of a path, whatever somebody typed."""
    return quote(id, safe="") or "%20"
