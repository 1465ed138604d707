"""Sessions of other clients with twins, in text files of their families: what is sent, and all that comes.

`= DRIVER MODEL SIZE` and options are of the twins that follow, `= OPTIONS` of one scene; `@` is the login of each
client; `NAME> TEXT` is sent, NAME with a ? is not logged in, and that of a protocol reaches its port; `! WORDS` is done
to the unit. To take over what is said now: delete all answers of a scene, and run the tests twice.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from difflib import unified_diff
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from netconf_client.connect import connect_ssh
from netconf_client.error import RpcError
from netconf_client.ncclient import Manager
from typing_extensions import override

from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.printable import printable
from hwd_drivers.families.sonic.cli import CommandLine
from hwd_drivers.transports.dial import Dialer, TcpDialer
from hwd_drivers.twins.server import Denial

from ..parts import ends, ids, pairs
from ..stage import Client, Stage, named, texts, value_of


class Scene:
    """A twin, which its first client starts, and clients by their names."""

    def __init__(self, usual: list[str], login: str, dialer: Dialer | None = None) -> None:
        driver, *places = (word for word in usual if "=" not in word)
        self.stage = Stage(driver, *places, dialer=dialer)
        self.login = login
        self.end = ""
        self.clients: dict[str, Client] = {}
        self.open = AsyncExitStack()
        self.open.push_async_exit(self.stage)
        self.take(usual)

    def take(self, words: list[str]) -> None:
        for name, value in named(words).items():
            if name == "end":
                self.end = str(value)
            elif name in ("model", "size", "timing", "heard_s"):
                setattr(self.stage, name, value)
            else:
                self.stage.options[name] = value

    async def client(self, name: str) -> Client:
        if self.stage.twin is None:
            await self.stage.start()
        if name not in self.clients:
            client = self.clients[name] = await self.stage.connect(self.stage.twin.addresses.get(name.strip("?")))
            await asyncio.sleep(self.stage.heard_s)
            if self.login and not name.endswith("?"):
                await client.ask(self.login)
        return self.clients[name]

    async def play(self, line: str) -> list[str]:
        """What comes of a line."""
        if line.startswith("= "):
            self.take(line[2:].split())
        elif line.startswith("! "):
            return await self.do(*line[2:].split())
        elif not line.startswith("# "):
            name, _, text = line.partition("> ")
            return await self.send(name, text)
        return []

    async def send(self, name: str, text: str) -> list[str]:
        client = await self.client(name)
        data = f"{text}{self.end}".encode().decode("unicode_escape").encode("latin-1")
        return self.shown(await client.say(data), client)

    def shown(self, data: bytes, client: Client) -> list[str]:
        lines = [printable(line) for line in data.decode(errors="backslashreplace").split("\r\n") if line]
        return [*lines, *(["(ended)"] if client.ended else [])]

    async def do(self, verb: str, *words: str) -> list[str]:
        if self.stage.twin is None:
            await self.stage.start()
        faults, mirror, now_ns = self.stage.twin.faults, self.stage.twin.mirror, self.stage.clock.monotonic_ns()
        match verb, words:
            case "heard", [name]:
                client = await self.client(name)
                data, client.received = client.received, b""
                return self.shown(data, client)
            case "wait", [seconds]:
                await asyncio.sleep(float(seconds))
            case "flood", [name, text, times]:
                client = await self.client(name)
                return self.shown(
                    await client.say(text.encode().decode("unicode_escape").encode() * int(times)), client
                )
            case "light", [end, dbm]:
                self.stage.light(end, float(dbm), from_now=True)
            case "read", []:
                return [", ".join(ids(mirror, now_ns)) or "(nothing)"]
            case "output", [end]:
                power = mirror.output(*ends(end), now_ns)
                return ["dark" if power is None else f"{power:.2f} dBm"]
            case "blocked", []:
                return [texts(sorted(mirror.blocked, key=str)) or "(nothing)"]
            case "deny", [code, *text]:
                faults.deny_next = Denial(code=code, text=" ".join(text))
            case "fault", [name, value]:
                setattr(faults, name, value_of(value))
            case (("stick" | "fail"), _):
                getattr(faults, verb)(ends(" ".join(words)))
            case "panel", [remove, add]:
                faults.panel(pairs("" if remove == "none" else remove), pairs(add))
            case "reboot", [seconds]:
                faults.reboot(float(seconds))
            case (("reset" | "clear"), []):
                getattr(faults, verb)()
            case _:
                raise AssertionError(f"! {verb} {' '.join(words)}: nobody knows how")
        return []


class HttpScene(Scene):
    """Requests by httpx2, over TCP in real time: `METHOD PATH BODY`, where NAME is the kind of the body."""

    KINDS: ClassVar = {
        "": "application/yang-data+json",
        "xml": "application/yang-data+xml",
        "form": "application/x-www-form-urlencoded",
    }

    def __init__(self, usual: list[str], login: str) -> None:
        super().__init__(usual, "", TcpDialer())
        self.auth = login.split()
        self.http = httpx2.AsyncClient(verify=False, timeout=30)
        self.open.push_async_exit(self.http)

    @override
    async def send(self, name: str, text: str) -> list[str]:
        if self.stage.twin is None:
            await self.stage.start()
        method, path, *body = text.split(" ", 2)
        kind = self.KINDS[name.strip("?")]
        answer = await self.http.request(
            method,
            f"http://{self.stage.address}{path}",
            content="".join(body),
            headers={"content-type": kind, "accept": kind if name == "xml" else self.KINDS[""]},
            auth=None if name.endswith("?") else (self.auth[0], self.auth[1]),
        )
        return [f"{answer.status_code} {answer.text}".strip()]


class RpcScene(Scene):
    """Operations of NETCONF by netconf-client, over TCP in real time, with `edit CONFIG` and `get FILTER` in short.

    `{opsw}` and others stand for namespaces, `{delete}` for the operation of an element.
    """

    SHORT: ClassVar = {
        "opsw": ' xmlns="http://www.polatis.com/yang/optical-switch"',
        "plts": ' xmlns="http://www.polatis.com/yang/polatis-switch"',
        "system": ' xmlns="urn:ietf:params:xml:ns:yang:ietf-system"',
        "nc": ' xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"',
        **{
            name: f' xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0" nc:operation="{name}"'
            for name in ("create", "delete", "explode", "remove", "replace")
        },
    }
    FORMS: ClassVar = {
        "edit": "<edit-config{nc}><target><running/></target>%s<config>%s</config></edit-config>",
        "get": "<get{nc}>%s<filter type='subtree'>%s</filter></get>",
    }
    UNSTEADY = re.compile(r"<\?xml[^>]*>|</?rpc-reply[^>]*>|(?<=<eventTime>)202[^<]*|(?<=2031-05-06T05:08:)[^<]*|\n")

    def __init__(self, usual: list[str], login: str) -> None:
        super().__init__(usual, "", TcpDialer())
        self.sessions: dict[str, Manager] = {}
        self.offload = ThreadOffload(1)
        self.open.callback(self.offload.close)

    async def session(self, name: str) -> Manager:
        if self.stage.twin is None:
            await self.stage.start()
        if name not in self.sessions:
            host, port = self.stage.twin.addresses["netconf"].split(":")
            key = self.stage.twin.fronts["netconf"].host_key.split()[1]
            login = {"username": "admin", "password": "root", "hostkey_b64": key}
            session = await self.offload(lambda: connect_ssh(host=host, port=int(port), **login))
            self.open.push_async_callback(self.offload, session.close)
            self.sessions[name] = Manager(session, timeout=30)
        return self.sessions[name]

    @override
    async def send(self, name: str, text: str) -> list[str]:
        session = await self.session(name)
        verb, _, inner = text.partition(" ")
        word, _, default = verb.partition(":")
        if word in self.FORMS:
            how = f"<default-operation>{default}</default-operation>" if default else ""
            text = self.FORMS[word] % (how, inner)
        for short, said in self.SHORT.items():
            text = text.replace(f"{{{short}}}", said)
        try:
            reply = await self.offload(session.dispatch, text)
        except RpcError as error:
            return [f"{error.tag}: {error.message}"]
        return [self.UNSTEADY.sub("", reply.xml.decode() if isinstance(reply.xml, bytes) else reply.xml)]

    @override
    async def do(self, verb: str, *words: str) -> list[str]:
        if verb == "left":  # so many sessions
            for _ in range(30_000):
                if len(self.stage.twin.fronts["netconf"].sessions) == int(words[0]):
                    return []
                await asyncio.sleep(0.001)
        if verb != "notified":
            return await super().do(verb, *words)
        session = await self.session(words[0])
        note = await self.offload(lambda: session.take_notification(timeout=30))
        return [self.UNSTEADY.sub("", note.notification_xml.decode())]


class CliScene(Scene):
    """Lines of a shell of SONiC, without SSH: errors are behind `2: `, a status that is not 0 in parentheses."""

    @override
    async def send(self, name: str, text: str) -> list[str]:
        self.stage.twin = self.stage.twin or self.stage.make()
        printed = CommandLine(self.stage.twin.unit).run(text)
        errors = (f"2: {line}" for line in printed.err.splitlines())
        return [*printed.out.splitlines(), *errors, *([f"({printed.status})"] if printed.status else [])]

    @override
    async def do(self, verb: str, *words: str) -> list[str]:
        self.stage.twin = self.stage.twin or self.stage.make()
        if verb == "settle":
            mirror = self.stage.twin.mirror
            mirror.advance(mirror.next_ns() or 0)
            return []
        return await super().do(verb, *words)


async def play(scene: Scene, lines: list[str]) -> str:
    async with scene.open:
        told = [word for line in lines for word in (line, *(f"< {one}" for one in await scene.play(line)))]
    return "\n".join(told)


def check_sessions(
    file: Path, make: Callable[[list[str], str], Scene], run: Callable[[Coroutine[Any, Any, str]], str]
) -> None:
    before = file.read_text(encoding="utf-8")
    usual, login, told = list[str](), "", list[str]()
    for block in before.rstrip("\n").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("<")]
        if lines[0].startswith("# "):
            told.append(run(play(make(usual, login), lines)))
        else:
            usual, login = lines[0][2:].split(), "".join(line[2:] for line in lines[1:])
            told.append(block)
    after = "\n\n".join(told) + "\n"
    if after != before and any("\n<" not in block for block in before.split("\n\n") if block.startswith("# ")):
        file.write_text(after, encoding="utf-8")
        pytest.fail(f"{file}: answers were missing; they are there now")
    told_now, told_before = after.splitlines(), before.splitlines()
    assert told_now == told_before, "\n".join(unified_diff(told_before, told_now, str(file), "now", lineterm=""))
