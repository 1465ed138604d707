"""From documents to a timeline."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.hang import Hang
from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.kinds import read_fact
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.timeline import RcOutcome, RcRecovery, StageName, Timeline
from hwd.timeline.hang import hangs
from hwd.timeline.rules import CHAINS, breaches
from hwd_drivers.core.structs import to_json

from .conftest import LINK, MS, START_NS, Story

KEPT = {"link": "h2.eth0<->h3.eth0", "kept": True, "crossconnects": ["ocs1:5A-6B"]}


def ms(at_ns: int) -> float:
    return (at_ns - START_NS) / MS


def test_usual_link_has_every_stage(story: Story) -> None:
    timeline = story.tell()
    assert timeline.breaches == []
    (link,) = timeline.links
    seconds = {stage.name: stage.seconds for stage in link.stages}
    assert seconds == pytest.approx(
        {
            StageName.CONTROL: 0.2,
            StageName.OPTICAL: 0.101,
            StageName.FIRMWARE: 6.0,
            StageName.CARRIER: 0.001,
            StageName.RDMA: 0.001,
            StageName.READY: 0.148,
            StageName.TURNAROUND: 6.251,
            StageName.ACTIVATION: 5.902,
        }
    )
    assert link.dwell_s == 12.5
    assert link.stage(StageName.FIRMWARE).error_s == pytest.approx(0.0002)
    assert link.stage(StageName.CONTROL).error_s == 0


def test_link_takes_the_earliest_dark_and_the_latest_of_the_rest_with_the_bounds_of_that(story: Story) -> None:
    (link,) = story.tell().links
    assert ms(link.instant(InstantName.DARK).at_ns) == 5
    assert link.instant(InstantName.DARK).source == "h0.eth0 module"
    for name in (InstantName.LIGHT, InstantName.FIRMWARE, InstantName.CARRIER, InstantName.RDMA, InstantName.READY):
        assert link.instant(name).source.startswith("h1.eth0"), name
    assert ms(link.instant(InstantName.READY).at_ns) == 6251
    story.without("h0.eth0", "firmware")
    story.event("h0.eth0", "firmware", 6100.9, error_ms=0.05, source="phy", up=True)
    firmware = story.tell().links[0].instant(InstantName.FIRMWARE)
    assert (ms(firmware.earliest_ns), ms(firmware.latest_ns)) == (6100.9, 6101.1)


def test_unknown_at_one_end_is_unknown_for_the_link_and_names_the_end(story: Story) -> None:
    story.without("h1.eth0", "rdma")
    story.settle("h1", kinds={"light": False, "firmware": False, "carrier": False, "ready": False})
    (link,) = story.tell().links
    rdma = link.instant(InstantName.RDMA)
    assert rdma.knowledge is Knowledge.UNKNOWN
    assert rdma.why == "h1.eth0: no source for rdma"
    assert link.stage(StageName.RDMA).seconds is None
    ready = link.stage(StageName.READY)
    assert ready.seconds == pytest.approx(0.149)
    assert ready.why.startswith("counted from the carrier: rdma unknown: h1.eth0")


def test_silence_without_a_settle_reply_is_unknown(story: Story) -> None:
    story.without("h0.eth0", "carrier")
    del story.settled["h0.eth0"]
    end = story.tell().ends[0]
    assert end.instant(InstantName.CARRIER).knowledge is Knowledge.UNKNOWN
    assert "did not say what it watched" in end.instant(InstantName.CARRIER).why


def test_switch_too_fast_for_the_carrier_leaves_it_never_left_unless_events_were_lost(story: Story) -> None:
    for end in ("h0.eth0", "h1.eth0"):
        story.without(end, "carrier", "firmware", "rdma")
    (link,) = story.tell().links
    carrier = link.instant(InstantName.CARRIER)
    assert carrier.knowledge is Knowledge.NEVER_LEFT
    assert carrier.why == "never away in 500 samples, longest gap 2.000 ms"
    assert link.stage(StageName.CARRIER).knowledge is Knowledge.NEVER_LEFT
    story.event("h0", "lost", 50, count=3, why="spool full")
    ends = story.tell().ends
    assert ends[0].instant(InstantName.CARRIER).knowledge is Knowledge.UNKNOWN
    assert ends[0].instant(InstantName.CARRIER).why.endswith("3 events of h0 lost")
    assert ends[1].instant(InstantName.CARRIER).knowledge is Knowledge.NEVER_LEFT


def test_carrier_that_fell_at_one_end_only_is_seen_for_the_link(story: Story) -> None:
    story.without("h0.eth0", "carrier")
    carrier = story.tell().links[0].instant(InstantName.CARRIER)
    assert carrier.knowledge is Knowledge.SEEN
    assert ms(carrier.at_ns) == 6102
    assert carrier.why.startswith("never left at h0.eth0")


def test_last_carrier_before_ready_and_first_dark_after_the_command_count(story: Story) -> None:
    story.event("h0.eth0", "dark", -50, source="module")
    story.event("h0.eth0", "dark", 40, source="module")
    story.event("h0.eth0", "light", 60, source="module")
    story.event("h0.eth0", "carrier", 3000, source="netlink", carrier=True)
    story.event("h0.eth0", "carrier", 3005, source="netlink", carrier=False)
    end = story.tell().ends[0]
    assert ms(end.instant(InstantName.DARK).at_ns) == 5
    assert ms(end.instant(InstantName.LIGHT).at_ns) == 100
    assert ms(end.instant(InstantName.CARRIER).at_ns) == 6101


def test_fall_that_may_be_after_the_first_transfer_does_not_make_the_rise_before_it_a_later_one(story: Story) -> None:
    """A poll that had to wait: the light fell, and came back, at some time after the poll before."""
    story.event("h0.eth0", "dark", 6300, error_ms=60, source="module")
    story.event("h0.eth0", "light", 6400, source="module")
    timeline = story.tell()
    assert ms(timeline.ends[0].instant(InstantName.LIGHT).at_ns) == 100
    assert timeline.breaches == []


def test_rise_after_a_transfer_before_which_the_state_surely_fell_breaks_the_order(story: Story) -> None:
    story.event("h0.eth0", "dark", 6200, source="module")
    story.event("h0.eth0", "light", 6400, source="module")
    timeline = story.tell()
    assert ms(timeline.ends[0].instant(InstantName.LIGHT).at_ns) == 6400
    assert any("light at 6399.900 to 6400.100 ms" in text for text in timeline.breaches)


def test_flap_after_ready_is_told_and_does_not_move_the_carrier(story: Story) -> None:
    story.event("h0.eth0", "carrier", 8250, source="netlink", carrier=False)
    story.event("h0.eth0", "carrier", 9000, source="netlink", carrier=True)
    timeline = story.tell()
    assert ms(timeline.ends[0].instant(InstantName.CARRIER).at_ns) == 6101
    assert timeline.breaches == ["h0.eth0: carrier fell again 2000.000 ms after ready (netlink, 1 time)"]


def test_link_that_stays_down_or_was_not_seen_dark_is_unknown_and_says_who_saw_what(story: Story) -> None:
    story.without("h0.eth0", "carrier", "rdma", "ready")
    story.event("h0.eth0", "carrier", 6, source="netlink", carrier=False)
    story.without("h1.eth0", "dark")
    ends = story.tell().ends
    carrier, dark = ends[0].instant(InstantName.CARRIER), ends[1].instant(InstantName.DARK)
    assert (carrier.knowledge, carrier.why) == (Knowledge.UNKNOWN, "down when netlink last saw it")
    assert (dark.knowledge, dark.why) == (Knowledge.UNKNOWN, "module saw the return of the light only")


def test_all_observations_are_kept_and_best_origin_then_narrowest_is_chosen(story: Story) -> None:
    story.event("h0.eth0", "light", 95, source="switch-monitor", origin="twin", error_ms=0.01)
    story.event("h0.eth0", "light", 99, source="phy-register", error_ms=0.02)
    end = story.tell().ends[0]
    assert end.instant(InstantName.LIGHT).source == "phy-register"
    seen = [one.source for one in end.observations if one.name is InstantName.LIGHT]
    assert sorted(seen) == ["module", "phy-register", "switch-monitor"]


@pytest.mark.parametrize(
    ("of_link", "limits_ms"),
    [
        ({"crossconnects": ["ocs1:1A-2B", "ocs1:2A-1B"]}, (0, 200)),
        ({"switches": ["ocs1"]}, (0, 200)),
        ({"crossconnects": ["ocs1:1A-2B", "ocs1:2A-1B", "ocs2:1A-2B"]}, (-3, 900)),
    ],
    ids=["of one of two", "by name", "of both"],
)
def test_switches_of_its_own_crossconnects_count_for_a_link(
    story: Story, of_link: dict[str, Any], limits_ms: tuple[float, float]
) -> None:
    story.links = [{"link": LINK, "kept": False, **of_link}]
    story.moves.append({"switch": "ocs2", "remove": [], "add": ["1A-2B"]})
    story.command("ocs2", -3, 900)
    (link,) = story.tell().links
    sent, answered = link.instant(InstantName.COMMANDED), link.instant(InstantName.ACKNOWLEDGED)
    assert (ms(sent.at_ns), ms(answered.at_ns)) == limits_ms


def test_switch_that_never_answered_is_unknown_by_name(story: Story) -> None:
    story.commanded.clear()
    story.command("ocs1", 0, None)
    (link,) = story.tell().links
    assert link.instant(InstantName.ACKNOWLEDGED).why == "ocs1: ocs1 did not answer"
    assert link.stage(StageName.CONTROL).knowledge is Knowledge.UNKNOWN
    assert link.stage(StageName.OPTICAL).seconds == pytest.approx(0.101)


def test_kept_link_never_left_anything_and_is_a_breach_where_it_went_dark(story: Story) -> None:
    story.links.append(KEPT)
    timeline = story.tell()
    kept = timeline.links[1]
    assert {instant.knowledge for instant in kept.instants} == {Knowledge.NEVER_LEFT}
    assert {stage.seconds for stage in kept.stages} == {None}
    assert timeline.breaches == []
    story.event("h2.eth0", "dark", 7, source="module")
    timeline = story.tell()
    assert timeline.breaches == ["h2.eth0: kept link h2.eth0<->h3.eth0 lost its light (module)"]
    (end, _) = [one for one in timeline.ends if one.link == timeline.links[1].link]
    assert end.instant(InstantName.DARK).knowledge is Knowledge.SEEN


def test_kept_link_that_a_run_took_down_itself_is_no_breach_and_is_told(story: Story) -> None:
    """The peer's NIC was set; its firmware took a second, and our carrier went with it."""
    story.links.append(KEPT)
    story.event("h2.eth0", "carrier", 300, source="netlink", carrier=False)
    assert len(story.tell().breaches) == 1
    story.act("h3.eth0", from_ms=-200, to_ms=800)
    timeline = story.tell()
    assert timeline.breaches == []
    assert timeline.explained == [
        "h2.eth0: kept link h2.eth0<->h3.eth0 lost its carrier (netlink): h3.eth0 was set, autoneg"
    ]
    assert read_fact("timeline", to_json(timeline)) == timeline


@pytest.mark.parametrize(
    ("port", "from_ms", "to_ms"), [("h1.eth0", 0, 800), ("h3.eth0", -5000, -4000), ("h3.eth0", 301, 800)]
)
def test_what_was_done_elsewhere_or_long_before_or_later_explains_nothing(
    story: Story, port: str, from_ms: float, to_ms: float
) -> None:
    story.links.append(KEPT)
    story.event("h2.eth0", "carrier", 300, source="netlink", carrier=False)
    story.act(port, from_ms=from_ms, to_ms=to_ms)
    timeline = story.tell()
    assert (len(timeline.breaches), timeline.explained) == (1, [])


def test_fall_that_nobody_planned_is_a_breach_beside_one_that_a_run_made(story: Story) -> None:
    story.links.append(KEPT)
    for at_ms in (300, 9000):
        story.event("h2.eth0", "carrier", at_ms, source="netlink", carrier=False)
    story.act("h2.eth0", from_ms=290, to_ms=310)
    timeline = story.tell()
    assert (len(timeline.breaches), len(timeline.explained)) == (1, 1)


def test_fall_after_ready_that_a_run_made_is_no_breach(story: Story) -> None:
    story.event("h0.eth0", "carrier", 7000, source="netlink", carrier=False)
    assert len(story.tell().breaches) == 1
    story.act("h0.eth0", from_ms=6990, to_ms=7100)
    timeline = story.tell()
    assert timeline.breaches == []
    assert timeline.explained[0].startswith("h0.eth0: carrier fell again")


def test_wrong_peer_is_why_ready_is_unknown_and_ready_of_another_reconfiguration_is_not_ours(story: Story) -> None:
    story.without("h0.eth0", "ready")
    story.event("h0.eth0", "ready", 6200, reconfiguration="r0", peer="h1.eth0")
    assert story.tell().ends[0].instant(InstantName.READY).why == "no transfer succeeded in 500 tries"
    story.event("h0.eth0", "wrong-peer", 6200, reconfiguration="r1", expected="h1.eth0", found="h3.eth0")
    ready = story.tell().ends[0].instant(InstantName.READY)
    assert ready.why == "the peer is h3.eth0, and should be h1.eth0"


def test_long_stage_is_as_weak_as_what_its_length_is_made_of(story: Story) -> None:
    def origins(*fitted: str) -> dict[StageName, Origin | None]:
        for event in story.events:
            event["origin"] = "fitted" if event["type"] in fitted else "kernel"
        (link,) = story.tell().links
        return {stage.name: stage.origin for stage in link.stages}

    assert origins("firmware", "light", "dark") == {
        StageName.CONTROL: Origin.MEASURED,
        StageName.OPTICAL: Origin.FITTED,
        StageName.FIRMWARE: Origin.FITTED,
        StageName.CARRIER: Origin.TWIN,  # the fitted part lies before it
        StageName.RDMA: Origin.KERNEL,
        StageName.READY: Origin.KERNEL,
        StageName.TURNAROUND: Origin.FITTED,
        StageName.ACTIVATION: Origin.FITTED,
    }
    story.origins["ocs1"] = Origin.FITTED
    found = origins("dark", "light", "firmware", "rdma")
    assert found[StageName.CONTROL] is Origin.FITTED, "the answer of a twin switch"
    assert found[StageName.READY] is Origin.KERNEL, "a first transfer on a kernel host, even after a drawn rdma"
    assert found[StageName.CARRIER] is Origin.TWIN


def test_event_that_cannot_be_read_and_a_sampled_instant_of_a_later_version_are_left_out_and_told(story: Story) -> None:
    story.event("h0.eth0", "carrier", 7000, source="netlink", carrier="yes")
    story.settled["h0.eth0"]["polarisation"] = story.settled["h0.eth0"]["light"]
    assert sorted(story.tell().breaches) == [
        "h0.eth0: event 15 (carrier) left out: its data is {'carrier': 'yes'}",
        "h0.eth0: what it sampled of 'polarisation' left out: no such instant",
    ]


def test_document_keeps_all_of_a_timeline(story: Story) -> None:
    story.links.append({**KEPT, "crossconnects": []})
    story.without("h1.eth0", "rdma")
    story.event("h0.eth0", "carrier", 8250, source="netlink", carrier=False)
    story.sweep = {"negotiates": "off"}
    story.settings = {"h0.eth0": {"autoneg": False}}
    timeline = story.tell()
    assert (timeline.sweep, timeline.settings) == ({"negotiates": "off"}, {"h0.eth0": {"autoneg": False}})
    assert read_fact("timeline", to_json(timeline)) == timeline


def test_notice_is_dated_by_its_stamp_and_not_by_the_middle_of_its_bounds(story: Story) -> None:
    for event in story.events:
        if event["type"] == "carrier":
            event["earliest_ns"] = event["best_ns"] - 3 * MS  # the kernel may have held it back so long
    (link,) = story.tell().links
    stage = link.stage(StageName.CARRIER)
    assert stage.seconds == pytest.approx(0.001)
    assert stage.error_s is not None
    assert stage.error_s >= 0.003


# --- recovery of a reliable connection in the timeline: beside the stages, and never among them


def told(story: Story, end: str, at_ms: float, outcome: str = "completed", **more: Any) -> None:
    data = {
        "reconfiguration": "r1",
        "peer": "h1.eth0",
        "outcome": outcome,
        "after_s": 6.2,
        "ack_timeout_s": 0.067,
        "retries": 7,
        **more,
    }
    story.event(end, "rc-recovery", at_ms, error_ms=1.0, **data)


def of(timeline: Timeline, end: str) -> RcRecovery | None:
    (found,) = [one.rc for one in timeline.ends if str(one.end) == end]
    return found or None


def test_it_is_timed_from_the_carrier_of_its_end_and_is_no_part_of_ready(story: Story) -> None:
    without = story.tell()
    (carrier,) = [one.instants[3] for one in without.ends if str(one.end) == "h0.eth0"]
    told(story, "h0.eth0", 6300.0)
    timeline = story.tell()
    found = of(timeline, "h0.eth0")
    assert found is not None
    assert found.outcome is RcOutcome.COMPLETED
    assert found.after_carrier_s == pytest.approx((found.best_ns - carrier.at_ns) / 1e9)
    assert found.error_s == pytest.approx(0.001 + carrier.error_ns / 1e9)
    assert of(timeline, "h1.eth0") is None
    assert (timeline.links, timeline.breaches) == (without.links, [])
    assert read_fact("timeline", to_json(timeline)) == timeline


def test_a_failure_alone_has_no_time_and_what_was_made_anew_keeps_why_and_stands_before_it(story: Story) -> None:
    told(story, "h0.eth0", 540.0, "failed", why="retry count exceeded")
    found = of(story.tell(), "h0.eth0")
    assert found is not None
    assert (found.outcome, found.after_carrier_s, found.error_s) == (RcOutcome.FAILED, None, None)
    told(story, "h0.eth0", 6280.0, "re-made")
    found = of(story.tell(), "h0.eth0")
    assert found is not None
    assert (found.outcome, found.why) == (RcOutcome.RE_MADE, "retry count exceeded")
    assert found.after_carrier_s is not None


def test_one_of_another_reconfiguration_does_not_count(story: Story) -> None:
    told(story, "h0.eth0", 6300.0, reconfiguration="r0")
    assert of(story.tell(), "h0.eth0") is None


def test_nonsense_is_left_out_and_named(story: Story) -> None:
    told(story, "h0.eth0", 6300.0, "soon")
    timeline = story.tell()
    assert of(timeline, "h0.eth0") is None
    (breach,) = timeline.breaches
    assert "rc-recovery" in breach
    assert "'soon'" in breach


# --- the order of instants


TIMES = st.lists(st.integers(0, 1000), min_size=8, max_size=8)


def instants(at: list[int], error: int) -> dict[InstantName, Instant]:
    return {
        name: Instant.seen(name, earliest_ns=time - error, latest_ns=time + error)
        for name, time in zip(InstantName, at, strict=True)
    }


def test_breach_names_both_instants_and_by_how_much(story: Story) -> None:
    story.without("h0.eth0", "firmware")
    story.event("h0.eth0", "firmware", 6103, source="phy", up=True)
    assert story.tell().breaches == [
        "h0.eth0: firmware at 6102.900 to 6103.100 ms (phy) should not be after carrier at 6100.900 to 6101.100 ms "
        "(netlink), and is by 1.800 ms beyond both bounds",
        "h0.eth0: firmware at 6102.900 to 6103.100 ms (phy) should not be after rdma at 6101.900 to 6102.100 ms "
        "(sysfs), and is by 0.800 ms beyond both bounds",
    ]


SPANS = st.lists(st.tuples(*[st.integers(0, 10**9)] * 3).map(sorted), min_size=8, max_size=8)


@given(SPANS)
def test_breach_follows_from_the_bounds_that_it_prints_wherever_the_best_estimates_lie(spans: list[list[int]]) -> None:
    found = {
        name: Instant.seen(name, earliest_ns=earliest, latest_ns=latest, best_ns=best)
        for name, (earliest, best, latest) in zip(InstantName, spans, strict=True)
    }
    for text in breaches("x", found):
        printed = re.fullmatch(
            r"x: \w+ at (\S+)(?: to \S+)? ms should not be after \w+ at (?:\S+ to )?(\S+) ms, "
            r"and is by (\S+) ms beyond both bounds",
            text,
        )
        assert printed is not None, text
        earliest_ms, latest_ms, by_ms = map(float, printed.groups())
        assert earliest_ms - latest_ms == pytest.approx(by_ms, abs=0.0021)


def test_disorder_within_the_bounds_and_an_answer_before_the_light_are_no_breach(story: Story) -> None:
    story.without("h0.eth0", "firmware")
    story.event("h0.eth0", "firmware", 6101.15, source="phy", up=True)
    story.commanded.clear()
    story.command("ocs1", 0, 1)
    assert story.tell().breaches == []


@given(TIMES, st.integers(0, 50))
def test_no_breach_where_every_chain_is_in_order(at: list[int], error: int) -> None:
    found = instants(sorted(at), error)
    assert breaches("x", found) == ()


@given(TIMES, st.integers(0, 50))
def test_there_is_a_breach_where_some_pair_is_out_of_order_beyond_its_bounds(at: list[int], error: int) -> None:
    found = instants(at, error)
    broken = any(
        found[chain[i]].earliest_ns > found[chain[j]].latest_ns
        for chain in CHAINS
        for i in range(len(chain))
        for j in range(i + 1, len(chain))
    )
    assert bool(breaches("x", found)) == broken


@given(TIMES, st.sets(st.sampled_from(list(InstantName))))
def test_unknown_instants_break_nothing(at: list[int], unknown: set[InstantName]) -> None:
    found = instants(at, 0)
    rest = {name: one for name, one in found.items() if name not in unknown}
    hidden = found | {name: Instant.unknown(name, "no source") for name in unknown}
    assert breaches("x", hidden) == breaches("x", rest) or InstantName.COMMANDED in unknown


# --- where links hung, from their timelines alone


SAMPLES = "500 samples, longest gap 2.000 ms"
BOTH = ("h0.eth0", "h1.eth0")
WATCHED = {"light": False, "firmware": False, "carrier": False, "rdma": False, "ready": False}


def watched(story: Story, **without: str) -> None:
    """All states are watched and come back, but for those that `without` has no source of, with the reason."""
    story.settle("h0", "h1", kinds=WATCHED)
    for watches in story.settled.values():
        for kind, why in without.items():
            watches[kind] |= {"seen": False, "why_not": why}


def test_link_that_was_ready_or_kept_hangs_nowhere(story: Story) -> None:
    assert list(hangs(story.tell())) == []
    story.without("h0.eth0", "ready")
    story.links[0]["kept"] = True
    assert list(hangs(story.tell())) == []


def test_end_that_lacks_the_first_instant_is_named_with_its_reason(story: Story) -> None:
    watched(story)
    story.without("h1.eth0", "firmware", "carrier", "rdma", "ready")
    story.without("h0.eth0", "ready")
    (hang,) = hangs(story.tell())
    assert hang == Hang(
        link=Link.parse(LINK),
        end=NicPortId.parse("h1.eth0"),
        stage=StageName.FIRMWARE,
        why=f"no event reports it ({SAMPLES})",
    )


def test_state_that_was_down_at_the_end_is_told_by_its_source(story: Story) -> None:
    watched(story)
    for end in BOTH:
        story.without(end, "light", "firmware", "rdma", "ready")
    story.without("h0.eth0", "carrier")
    story.event("h0.eth0", "carrier", 6, source="netlink", carrier=False)
    (hang,) = hangs(story.tell())
    assert str(hang) == f"{LINK} hangs at h0.eth0, optical: light down when module last saw it"


def test_instant_without_a_source_is_no_place_to_hang_at(story: Story) -> None:
    watched(story, light="this host has no source of it", firmware="this host has no source of it")
    for end in BOTH:
        story.without(end, "dark", "light", "firmware", "carrier", "rdma", "ready")
        story.event(end, "carrier", 6, source="netlink", carrier=False)
    (hang,) = hangs(story.tell())
    assert str(hang) == (
        f"{LINK} hangs at both ends, carrier: down when netlink last saw it; "
        "light unknown: this host has no source of it; firmware unknown: this host has no source of it"
    )


def test_nothing_is_said_where_nothing_was_watched(story: Story) -> None:
    for end in BOTH:
        story.without(end, "light", "dark", "firmware", "carrier", "rdma", "ready")
    story.settled.clear()
    assert list(hangs(story.tell())) == []


def test_transfer_that_never_came_is_the_last_stage(story: Story) -> None:
    watched(story)
    for end in BOTH:
        story.without(end, "ready")
    (hang,) = hangs(story.tell())
    assert str(hang) == f"{LINK} hangs at both ends, ready: no transfer succeeded in 500 tries"
