"""The REST server of a Calient twin under arbitrary requests."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from hwd_drivers.codecs.http import HttpRequest, basic
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.families.calient.models import rest_driver
from hwd_drivers.families.calient.options import TwinOptions
from hwd_drivers.families.calient.rest.front import RestFront
from hwd_drivers.families.calient.unit import Unit
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing

CLOCK = SystemClock()
UNIT = Unit(
    name="ocs1",
    capabilities=rest_driver.capabilities("calient-s160", "4"),
    timing=find_timing("ideal"),
    draws=Draws(7),
    clock=CLOCK,
    options=TwinOptions(),
)
FRONT = RestFront(UNIT, dialer=MemoryDialer(MemoryNet()), clock=CLOCK, address="mem:ocs1")

words = st.sampled_from(
    ["", "1.1.1", "1.1.2", "1.1.3", "9.9.9", "1.1.1>1.1.2", "1.1.1-1.1.2", "x", "bi", "uni", "SYSTEM", "a;b"]
)
items = st.dictionaries(
    st.sampled_from(["in", "out", "dir", "conn", "group", "name", "port", "inalias"]),
    words | st.none() | st.integers(),
    max_size=5,
)
bodies = st.one_of(
    st.binary(max_size=40),
    st.lists(items, max_size=4).map(lambda value: json.dumps(value).encode()),
    items.map(lambda value: json.dumps(value).encode()),
)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
    st.sampled_from(["crossconnects/", "ports/", "info/", "node/", ""]),
    st.sampled_from(
        [
            "",
            "add",
            "badd",
            "bdel",
            "list",
            "detail",
            "delete",
            "activate",
            "deactivate",
            "deleteall",
            "summary",
            "config",
            "x",
        ]
    ),
    words,
    bodies,
)
def test_any_request_has_an_answer_and_no_fibre_is_in_two_connections(
    method: str, what: str, asked: str, word: str, body: bytes
) -> None:
    path = f"/rest/{what}?id={asked}&conn={word}&port={word}"
    headers = (("authorization", basic("a", "b")),)
    response = FRONT.handle(HttpRequest(method=method, path=path, headers=headers, body=body))
    assert response.status in {200, 400, 404}
    json.loads(response.body)
    held = [end for each in UNIT.connections() for light in each.paths for end in light.ends]
    assert len(set(held)) == len(held)
    assert set(UNIT.mirror.crossconnects()) == {
        light for each in UNIT.connections() if each.active for light in each.paths
    }


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_any_path_has_an_answer(path: str) -> None:
    headers = (("authorization", basic("a", "b")),)
    assert FRONT.handle(HttpRequest(method="GET", path=path, headers=headers)).status in {200, 400, 404}
