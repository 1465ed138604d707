"""RestconfFront: the RESTCONF server of a Polatis unit (RFC 8040), on the same data as NETCONF.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from typing_extensions import override

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.datastore import Datastore
from hwd_drivers.families.polatis.netconf.messages import BASE, RpcError
from hwd_drivers.families.polatis.netconf.protocol import OPSW, PLTS
from hwd_drivers.families.polatis.netconf.refusals import RefusedRpc, refusal_of, refuse
from hwd_drivers.families.polatis.restconf import protocol, resources
from hwd_drivers.families.polatis.restconf.resources import Step
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.tls import serving
from hwd_drivers.twins.http_session import HttpSession
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.unit_twin import Front

STATUSES: Final[Mapping[str, int]] = {
    "in-use": 409,
    "lock-denied": 409,
    "resource-denied": 409,
    "data-exists": 409,
    "data-missing": 404,
    "operation-not-supported": 405,
    "operation-failed": 500,
    "access-denied": 401,
    "too-big": 413,
}
"""HTTP status by error-tag (RFC 8040, section 7), 400 for the others; 404 for a missing resource, as in the RFC."""

LEAF_STEPS: Final = 3
"""A container, an entry of its list, a leaf of that entry."""
ENTRIES: Final = {"groups": "group"}
"""Name of a container's entries where it is not `port`."""
LABELS: Final = {("ports", "port-label"): ("port-config", "label")}
"""Present place of the deprecated leaf that can be set."""
OPERATION: Final = f"{{{BASE}}}operation"


class RestconfFront(Front[Unit]):
    """RESTCONF server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=serving(dialer, unit.options.restconf_tls_pem), clock=clock, address=address)
        self.datastore = Datastore(unit)
        self._writes: Mapping[str, Callable[[tuple[Step, ...], HttpRequest], tuple[int, float]]] = {
            "PUT": self._put,
            "PATCH": self._patch,
            "POST": self._post,
            "DELETE": self._delete,
        }
        self._fading: list[asyncio.TimerHandle] = []
        self._groups: Mapping[str, Callable[[Element], float]] = {
            "polatis-switch:add-group-cross-connect": self.datastore.connect_groups,
            "polatis-switch:delete-group-cross-connect": self.datastore.disconnect_group,
        }

    @override
    def make_session(self, server: TwinServer) -> HttpSession:
        return HttpSession(server, self.handle)

    @override
    async def close(self) -> None:
        for timer in self._fading:
            timer.cancel()
        await super().close()

    def handle(self, request: HttpRequest) -> HttpResponse:
        """The answer to any request."""
        as_xml = "xml" in request.header("accept")
        if request.basic is None or not self.unit.takes(*request.basic):
            error = RpcError(tag="access-denied", message="Login needed", type="protocol")
            return _failure(error, as_xml, (("www-authenticate", 'Basic realm="Polatis"'),))
        try:
            return self._do(request, as_xml)
        except RefusedRpc as refused:
            return _failure(refused.error, as_xml)
        except UnitError as error:
            return _failure(refusal_of(error).error, as_xml)
        except resources.UnknownModuleError as error:
            return _failure(RpcError(tag="data-missing", message=str(error), type="protocol"), as_xml)
        except ProtocolError as error:
            return _failure(RpcError(tag="malformed-message", message=str(error), type="rpc"), as_xml)

    def _do(self, request: HttpRequest, as_xml: bool) -> HttpResponse:
        path, _, query = request.path.partition("?")
        if path.startswith(protocol.OPERATIONS) and request.method == "POST":
            return HttpResponse(status=204, delay_s=self._operate(path.removeprefix(protocol.OPERATIONS), request))
        if not path.startswith(protocol.DATA):
            raise refuse("data-missing", f"{path[:80]}: there is no such resource", type="protocol")
        steps = resources.parse_path(path.removeprefix(protocol.DATA))
        if request.method in ("GET", "HEAD"):
            return self._get(steps, resources.parse_fields(query), as_xml)
        if request.method not in self._writes:
            raise refuse("operation-not-supported", f"{request.method} is not known", type="protocol")
        if request.method == "PATCH" and not self.unit.options.restconf_patch:
            raise refuse("operation-not-supported", "PATCH is not supported", type="protocol")
        status, delay_s = self._writes[request.method](steps, request)
        return HttpResponse(status=status, delay_s=delay_s)

    # --- reading

    def _get(self, steps: tuple[Step, ...], fields: resources.Fields | None, as_xml: bool) -> HttpResponse:
        if self.unit.faults.take_wrong():
            steps = resources.parse_path("optical-switch:product-information")
        found = self._find(steps)
        if not found:
            if len(steps) > 1 or steps[0].name not in ("cross-connects", "groups"):
                raise refuse("data-missing", f"{_words(steps)} is not there", type="protocol")
            found = [Element(steps[0].tag)]  # an empty container exists too
        if fields is not None:
            found = [resources.only(each, fields) for each in found]
        body = resources.write_xml(found) if as_xml else resources.write_json(found)
        kind = protocol.XML_TYPE if as_xml else protocol.JSON_TYPE
        return HttpResponse(status=200, headers=(("content-type", kind),), body=body)

    def _find(self, steps: tuple[Step, ...]) -> list[Element]:
        root = Element("data")
        root.extend(self.datastore.read(frozenset({steps[0].name}), state=True))
        return resources.find(root, steps)

    # --- writing

    def _put(self, steps: tuple[Step, ...], request: HttpRequest) -> tuple[int, float]:
        there = bool(self._find(steps))
        if len(steps) == LEAF_STEPS:
            return 204 if there else 201, self._edit(self._leaf(steps, request), "merge")
        part, entry = self._part(steps, request)
        if entry is not None:
            entry.set(OPERATION, "replace")
        delay_s = self._edit(part, "merge" if entry is not None else "replace")
        return 204 if there else 201, delay_s

    def _patch(self, steps: tuple[Step, ...], request: HttpRequest) -> tuple[int, float]:
        if len(steps) == LEAF_STEPS:
            return 204, self._edit(self._leaf(steps, request), "merge")
        part, entry = self._part(steps, request)
        if entry is not None and not self._find(steps):
            raise refuse("data-missing", f"{_words(steps)} is not there", type="protocol")
        return 204, self._edit(part, "merge")

    def _post(self, steps: tuple[Step, ...], request: HttpRequest) -> tuple[int, float]:
        """A new entry of a list.

        One program states that it disappears after some 5 s on a real unit: `restconf_post_lasts_s`.
        """
        if len(steps) != 1:
            raise refuse("operation-not-supported", f"POST to {_words(steps)}", type="protocol")
        part = Element(steps[0].tag)
        name = ENTRIES.get(steps[0].name, "port")
        if steps[0].name == "cross-connects":
            name = self.unit.options.netconf_list
        part.extend(resources.read_body(request.body, request.header("content-type"), name, steps[0].namespace))
        for entry in part:
            entry.set(OPERATION, "create")
        answer_s = self._edit(part, "merge")
        if steps[0].name == "cross-connects" and (lasts_s := self.unit.options.restconf_post_lasts_s) is not None:
            made = [_port(leaf) for each in part if (leaf := xml.child(each, "ingress")) is not None]
            self._fading = [timer for timer in self._fading if timer.when() > asyncio.get_running_loop().time()]
            self._fading.append(asyncio.get_running_loop().call_later(lasts_s, self.unit.disconnect, made))
        return 201, answer_s

    def _delete(self, steps: tuple[Step, ...], request: HttpRequest) -> tuple[int, float]:
        if len(steps) == 1:
            return 204, self._edit(Element(steps[0].tag, {OPERATION: "remove"}), "merge")
        part, entry = Element(steps[0].tag), _keyed(steps)
        entry.set(OPERATION, "delete")
        part.append(entry)
        return 204, self._edit(part, "merge")

    def _part(self, steps: tuple[Step, ...], request: HttpRequest) -> tuple[Element, Element | None]:
        """The container with the content of the body, and its entry where the path names one."""
        kind = request.header("content-type")
        if len(steps) == 1:
            (part,) = resources.read_body(request.body, kind, steps[0].name, steps[0].namespace)[:1]
            return part, None
        wanted = _keyed(steps)
        entry = resources.read_body(request.body, kind, steps[1].name, steps[0].namespace)[0]
        key = resources.LISTS[steps[1].name]
        said = xml.child(entry, key)
        if said is None:
            xml.leaf(entry, key, steps[1].key)
        elif xml.text(said) != steps[1].key:
            raise refuse("invalid-value", f"{key} {xml.text(said)[:16]} is not the {steps[1].key} of the path")
        part = Element(wanted.tag.replace(steps[1].name, steps[0].name))
        part.append(entry)
        return part, entry

    def _leaf(self, steps: tuple[Step, ...], request: HttpRequest) -> Element:
        """The container with one entry of its list that has one leaf."""
        leaf = resources.read_body(request.body, request.header("content-type"), steps[2].name, steps[0].namespace)[0]
        container, name = LABELS.get((steps[0].name, steps[2].name), (steps[0].name, steps[2].name))
        part, entry = Element(f"{{{steps[0].namespace}}}{container}"), _keyed(steps[:2])
        xml.leaf(entry, name, xml.text(leaf))
        part.append(entry)
        return part

    def _edit(self, part: Element, operation: str) -> float:
        config = Element(f"{{{BASE}}}config")
        config.append(part)
        return self.datastore.edit(config, operation)

    def _operate(self, name: str, request: HttpRequest) -> float:
        if (do := self._groups.get(name)) is not None:
            return do(resources.read_body(request.body, request.header("content-type"), "input", PLTS)[0])
        if name != "optical-switch:port-set-state":
            raise refuse("operation-not-supported", f"{name[:80]} is not known", type="protocol")
        given = resources.read_body(request.body, request.header("content-type"), "input", OPSW)[0]
        for leaf, change in (("port-enab", self.unit.enable), ("port-disab", self.unit.disable)):
            if ports := [_port(each) for each in given if xml.name(each) == leaf]:
                change(ports)
        return 0.0


def _keyed(steps: tuple[Step, ...]) -> Element:
    """The list entry of a path of two steps, with only its key."""
    step = steps[1]
    if len(steps) > 2 or step.name not in resources.LISTS:
        raise refuse("operation-not-supported", f"{_words(steps)} cannot be changed by itself", type="protocol")
    if step.key is None:
        raise refuse("missing-attribute", f"{_words(steps)} needs a key", type="protocol")
    entry = Element(step.tag)
    xml.leaf(entry, resources.LISTS[step.name], step.key)
    return entry


def _port(leaf: Element) -> int:
    word = xml.text(leaf)
    if not (word.isascii() and word.isdigit() and len(word) <= 5):
        raise refuse("invalid-value", f"{xml.name(leaf)} {word[:16]} is no port")
    return int(word)


def _words(steps: tuple[Step, ...]) -> str:
    return "/".join(step.name + (f"={step.key}" if step.key else "") for step in steps)


def _failure(error: RpcError, as_xml: bool, headers: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """The errors resource of RFC 8040, section 7.1."""
    words = {"error-type": error.type, "error-tag": error.tag, "error-path": error.path, "error-message": error.message}
    fields = {name: text for name, text in words.items() if text}
    if as_xml:
        root = Element(f"{{{resources.RESTCONF}}}errors")
        one = SubElement(root, f"{{{resources.RESTCONF}}}error")
        for name, text in fields.items():
            xml.leaf(one, name, text)
        body, kind = xml.write(root), protocol.XML_TYPE
    else:
        body = json.dumps({"ietf-restconf:errors": {"error": [fields]}}, separators=(",", ":")).encode()
        kind = protocol.JSON_TYPE
    status = STATUSES.get(error.tag, 400)
    return HttpResponse(status=status, headers=(("content-type", kind), *headers), body=body)
