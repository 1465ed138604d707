"""The RESTCONF server of a Polatis twin under arbitrary requests."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from hwd_drivers.codecs.http import HttpRequest, basic
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.families.polatis.models import restconf_driver
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.restconf.front import RestconfFront
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing

CLOCK = SystemClock()
UNIT = Unit(
    name="ocs1",
    capabilities=restconf_driver.capabilities("polatis-vst", "4x4"),
    timing=find_timing("ideal"),
    draws=Draws(7),
    clock=CLOCK,
    options=TwinOptions(),
)
FRONT = RestconfFront(UNIT, dialer=MemoryDialer(MemoryNet()), clock=CLOCK, address="mem:ocs1")

paths = st.one_of(
    st.builds(
        lambda name, step, key: f"/api/data/optical-switch:{name}{step}{key}",
        st.sampled_from(
            [
                "cross-connects",
                "port-config",
                "opm-power",
                "opm-config",
                "opm-alarm-config",
                "voa",
                "system-config",
                "product-information",
                "ports",
                "x",
            ]
        ),
        st.sampled_from(["", "/pair", "/port", "/pair=", "/port=", "/pair=1/egress", "/port=1/label"]),
        st.sampled_from(["", "1", "99", "-1", "a", "1/x"]),
    ),
    st.sampled_from(["/api/operations/optical-switch:port-set-state", "/api/operations/x", "/", "/api/data/", "*"]),
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
)
leaves = st.one_of(st.none(), st.integers(-1, 70000), st.floats(), st.text(max_size=6), st.booleans())
names = st.sampled_from(
    [
        "pair",
        "port",
        "ingress",
        "egress",
        "port-id",
        "label",
        "atten-mode",
        "atten-level",
        "mode",
        "offset",
        "wavelength",
        "averaging-time",
        "port-enab",
        "port-disab",
        "startup-mode",
        "optical-switch:cross-connects",
        "optical-switch:pair",
        "input",
        "optical-switch:port-config",
        "optical-switch:voa",
        "optical-switch:port",
    ]
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(["GET", "PUT", "PATCH", "POST", "DELETE", "HEAD", "OPTIONS"]),
    paths,
    st.one_of(
        st.binary(max_size=40),
        values.map(as_json),
        st.sampled_from([b"<pair/>", b"<pair><ingress>1</ingress></pair>", b"<cross-connects/>"]),
    ),
    st.sampled_from(["application/yang-data+json", "application/yang-data+xml", ""]),
)
def test_any_request_has_an_answer_and_the_unit_stays_whole(method: str, path: str, body: bytes, kind: str) -> None:
    headers = (("authorization", basic("a", "b")), ("content-type", kind), ("accept", kind))
    response = FRONT.handle(HttpRequest(method=method, path=path, headers=headers, body=body))
    assert response.status in {200, 201, 204, 400, 404, 405, 409, 500}
    ports = [port for pair in UNIT.pairs() for port in pair]
    assert len(set(ports)) == len(ports)
    assert all(1 <= port <= 8 for port in ports)
