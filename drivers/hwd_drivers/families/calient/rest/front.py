"""RestFront: the REST server of a Calient unit.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from typing_extensions import override

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Crossconnect, Side
from hwd_drivers.families.calient.rest import protocol
from hwd_drivers.families.calient.unit import FIRMWARE, Connection, States, Unit, Wish
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.tls import serving
from hwd_drivers.twins.http_session import HttpSession
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.unit_twin import Front

REST_VERSION: Final = "1.0"
COOKIE: Final = "SESSIONID"
COOKIES_MAX: Final = 256
"""Most logins that are stored; the oldest is dropped."""

ItemT = TypeVar("ItemT")
Results = list[dict[str, str]]


class RestFront(Front[Unit]):
    """REST server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=serving(dialer, unit.options.rest_tls_pem), clock=clock, address=address)
        self._tokens = Draws(0).stream(f"rest/{unit.serial}")  # not secret: this is a twin
        self._cookies: list[str] = []

    @override
    def make_session(self, server: TwinServer) -> HttpSession:
        return HttpSession(server, self.handle)

    def handle(self, request: HttpRequest) -> HttpResponse:
        """The answer to any request."""
        known = request.cookies.get(COOKIE) in self._cookies and self.unit.options.login_by == "basic-or-cookie"
        if not known and (request.basic is None or not self.unit.takes(*request.basic)):
            headers = (("www-authenticate", 'Basic realm="Calient"'),)
            return HttpResponse(status=401, headers=headers, body=b"Unauthorized")
        try:
            what, parameters = protocol.query(request)
            answer, delay_s = self._do(request, what, parameters)
        except NotThereError as error:
            return _answer(404, [_failed("Failed", error.text)], ())
        except UnitError as error:
            return _answer(400, [_failed("Failed", error.text)], ())
        except ProtocolError as error:
            return _answer(400, [_failed("Failed", str(error))], ())
        if self.unit.faults.take_wrong():
            answer = {"version": REST_VERSION}
        return _answer(200, answer, () if known else self._remember(), delay_s)

    def _do(self, request: HttpRequest, what: str, parameters: dict[str, str]) -> tuple[Any, float]:
        match request.method, what, parameters.get("id", ""):
            case "GET", "info", "softwareversion":
                return {"version": FIRMWARE}, 0.0
            case "GET", "info", "restversion":
                return {"version": REST_VERSION}, 0.0
            case "GET", "node", "summary":
                return self._node(parameters.get("detail", "")), 0.0
            case "GET", "ports", "summary":
                return [self._port_summary(at) for at in range(1, len(self.unit.ports.names) + 1)], 0.0
            case "GET", "ports", "detail":
                return [self._port_detail(self.unit.number(parameters.get("port", "")))], 0.0
            case "POST", "ports", "config":
                return self._configure(request, parameters), 0.0
            case "GET", "crossconnects", "list":
                brief = self.unit.options.rest_list == "names"
                return [self._row(each, states, brief=brief) for each, states in self.unit.states()], 0.0
            case "GET", "crossconnects", "detail":
                wanted = self.unit.find(parameters.get("conn", ""))
                rows = [self._row(each, states) for each, states in self.unit.states() if each is wanted]
                # the vendor's sample takes the first of a list, and its half2 only where there is one
                return [{key: value for key, value in row.items() if key != "half2" or value} for row in rows], 0.0
            case "POST", "crossconnects", "add":
                return self._change([_wish(self._single(request, parameters))], self._add, wrapped=False)
            case "POST", "crossconnects", "badd":
                return self._change([_wish(item) for item in _items(request)], self._add)
            case "POST", "crossconnects", "bdel":
                return self._change([_conn(item) for item in _items(request)], self._delete)
            case "DELETE", "crossconnects", "delete" | "":
                return self._change([_conn(parameters)], self._delete, wrapped=False)
            case "POST", "crossconnects", "activate":
                return self._change([_conn(parameters)], self._activate, wrapped=False)
            case "POST", "crossconnects", "deactivate":
                return self._change([_conn(parameters)], self._deactivate, wrapped=False)
            case "POST", "crossconnects", "deleteall":
                return self._change([each.name for each in self.unit.connections()], self._delete)
        raise NotThereError(f"{request.method} {what} {parameters.get('id', '')}: not known")

    def _change(
        self, items: Sequence[ItemT], do: Callable[[ItemT], float], *, wrapped: bool = True
    ) -> tuple[Results | list[dict[str, dict[str, str]]], float]:
        """Handle each item by itself: a failed item does not prevent others."""
        allowed, denial = self.unit.faults.take_change(items)
        delay_s = 0.0
        results: Results = []
        for place, item in enumerate(items):
            if place >= len(allowed):
                results.append(_done() if denial is None else _failed(denial.code, denial.text))
                continue
            try:
                delay_s = max(delay_s, do(item))
            except UnitError as error:
                results.append(_failed("Failed", error.text))
            else:
                results.append(_done())
        if wrapped and self.unit.options.results == "wrapped":
            return [{"response": result} for result in results], delay_s
        return results, delay_s

    def _add(self, wish: Wish) -> float:
        connection = self.unit.enter(wish, activate=False)
        return self.unit.activate([connection]) if self.unit.options.rest_add == "activates" else 0.0

    def _delete(self, name: str) -> float:
        return self.unit.delete([self.unit.find(name)])

    def _activate(self, name: str) -> float:
        return self.unit.activate([self.unit.find(name)])

    def _deactivate(self, name: str) -> float:
        return self.unit.deactivate(self.unit.find(name))

    def _node(self, detail: str) -> Any:
        system = {"serialnumber": self.unit.serial, "partnumber": self.unit.model}
        match detail:
            case "SOFTWARE":
                return [{"version": FIRMWARE}]
            case "HARDWARE":
                return {"nodeSysConfigInfo": system}
            case "SYSCFG":
                return system
        raise NotThereError(f"node summary {detail}: not known")

    def _port_summary(self, number: int) -> dict[str, str]:
        held = self.unit.at(number, Side.A) or self.unit.at(number, Side.B)
        name = "" if held is None else held.name
        return {
            "port": self.unit.ports.names[number - 1],
            "inalias": self.unit.aliases.get((number, Side.A), ""),
            "outalias": self.unit.aliases.get((number, Side.B), ""),
            "conn": name,
            "connid": name,
            "power": _write_power(self.unit.power(number, Side.A)),
        }

    def _port_detail(self, number: int) -> dict[str, str]:
        detail = {"port": self.unit.ports.names[number - 1]}
        for word, side in (("in", Side.A), ("out", Side.B)):
            held = self.unit.at(number, side)
            used = held is not None and held.active
            detail |= {
                f"{word}alias": self.unit.aliases.get((number, side), ""),
                f"{word}owner": "TRANSIT" if used else "NONE",
                f"{word}power": _write_power(self.unit.power(number, side)),
                f"{word}circuit": "" if held is None else held.name,
                f"{word}as": "IS" if used else "OOS-NP",
                f"{word}os": "IS" if used else "OOS",
                f"{word}oc": "OK",
            }
        return detail

    def _row(self, connection: Connection, states: States, *, brief: bool = False) -> dict[str, Any]:
        halves = [self._half(path, None if brief else states) for path in connection.paths]
        return {
            "name": connection.name,
            "group": connection.group,
            "dir": "bi" if connection.two_way else "uni",
            "band": "",
            "half1": halves[0],
            "half2": halves[1] if connection.two_way else {},
        }

    def _half(self, path: Crossconnect, states: States | None) -> dict[str, str]:
        source, destination = int(path.a.port), int(path.b.port)
        half = {"conn": f"{self.unit.ports.names[source - 1]}>{self.unit.ports.names[destination - 1]}"}
        if states is None:
            return half
        in_dbm, out_dbm = self.unit.power(source, Side.A), self.unit.power(destination, Side.B)
        loss = "" if in_dbm is None or out_dbm is None else f"{in_dbm - out_dbm:.1f}"
        return half | {
            "inp": _write_power(in_dbm),
            "outp": _write_power(out_dbm),
            "loss": loss,
            "as": states.admin,
            "os": states.operation,
            "oc": states.capability,
            "alarm": "MN" if states.capability == "FAIL" else "CL",
        }

    def _configure(self, request: HttpRequest, parameters: dict[str, str]) -> Results:
        fields = {str(name): str(value) for name, value in self._single(request, parameters).items()}
        number = self.unit.number(fields.get("port", ""))
        for word, side in (("inalias", Side.A), ("outalias", Side.B)):
            if word in fields:
                self.unit.aliases[number, side] = fields[word]
        return [_done()]

    def _single(self, request: HttpRequest, parameters: dict[str, str]) -> dict[str, Any]:
        """One object: as a form, or as JSON in the body."""
        if request.body.lstrip()[:1] in (b"{", b"["):
            items = _items(request)
            if len(items) != 1:
                raise ProtocolError(f"{len(items)} objects, one is needed")
            return items[0]
        return dict(parameters)

    def _remember(self) -> tuple[tuple[str, str], ...]:
        token = f"{self._tokens.getrandbits(64):016x}"
        self._cookies = [*self._cookies[-COOKIES_MAX + 1 :], token]
        return (("set-cookie", f"{COOKIE}={token}; Path=/; HttpOnly"),)


class NotThereError(UnitError):
    """A path or a query that this unit does not know."""

    def __init__(self, text: str) -> None:
        super().__init__(Wrong.NAME, text)


def _items(request: HttpRequest) -> list[dict[str, Any]]:
    value = protocol.load(request.body)
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, dict):
            raise ProtocolError("Invalid body - objects are needed")
    return items


def _wish(item: Mapping[str, Any]) -> Wish:
    """Read a wish; `dir` is bi by default, as the one program that documents it states."""
    direction = str(item.get("dir") or "bi").lower()
    if direction not in ("bi", "uni"):
        raise UnitError(Wrong.VALUE, f"Invalid Direction - {direction[:16]}")
    return Wish(
        source=str(item.get("in") or ""),
        destination=str(item.get("out") or ""),
        two_way=direction == "bi",
        group=str(item.get("group") or ""),
        name=str(item.get("conn") or ""),
    )


def _conn(item: Mapping[str, Any]) -> str:
    return str(item.get("conn") or item.get("name") or "")


def _done() -> dict[str, str]:
    return {"status": protocol.RESULT_DONE, "msg": "Success", "description": ""}


def _failed(message: str, description: str) -> dict[str, str]:
    return {"status": protocol.RESULT_FAILED, "msg": message, "description": description}


def _answer(status: int, value: object, headers: tuple[tuple[str, str], ...], delay_s: float = 0.0) -> HttpResponse:
    kind = (("content-type", protocol.JSON_TYPE), *headers)
    return HttpResponse(status=status, headers=kind, body=protocol.dump(value), delay_s=delay_s)


def _write_power(power_dbm: float | None) -> str:
    return "" if power_dbm is None else f"{power_dbm:.1f}"
