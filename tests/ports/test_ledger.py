"""The one question of the ledger: who may do what on which ports, and what the refusal says."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.ports.claim import Claim, holder_of, lease
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import ROWS, PortAction, Reason
from hwd_drivers.core.errors import RefusedError

from ..answers import check_golden

S = 10**9
NOW = 1_000 * S
PORT = "h0.eth0"
SOMEBODY = Asker()
RUN = Asker(run="r1")


def claim(reason: Reason, id: str = "x1", *ports: str, run: str | None = None, **fields: str | bool | int) -> Claim:
    made = Claim(id=id, reason=reason, owner=holder_of(run) if run else "ben", ports=frozenset(ports or {PORT}))
    return replace(made, run=run, **fields)  # type: ignore[arg-type]


def leased(id: str = "l1", holder: str = "ada", *ports: str, taken_s: int = 900, expires_s: int = 1_060) -> Claim:
    return lease(
        id=id, holder=holder, ports=frozenset(ports or {PORT}), taken_wall_ns=taken_s * S, expires_wall_ns=expires_s * S
    )


def ledger_of(*claims: Claim) -> Ledger:
    ledger = Ledger()
    for one in claims:
        ledger.claim(one)
    return ledger


def refused(ledger: Ledger, asker: Asker, action: PortAction, *ports: str) -> str:
    """The text of the refusal, empty where there is none."""
    refusal = ledger.may(asker, ports or (PORT,), action, now_wall_ns=NOW)
    return "" if refusal is None else str(refusal)


CLAIMS = {
    Reason.LEASE: leased(),
    Reason.RECONFIGURATION: claim(Reason.RECONFIGURATION, what="one pair", why="about another 3.2 s"),
    Reason.CUT_OFF: claim(Reason.CUT_OFF, what="one pair", why="ocs1: no answer"),
    Reason.IN_DOUBT: claim(Reason.IN_DOUBT, what="one pair", why="the journal was damaged"),
    Reason.PREPARED_SET: claim(Reason.PREPARED_SET, why="for another 60 s"),
    Reason.DELEGATION: claim(Reason.DELEGATION, "sel"),
    Reason.SETTINGS: claim(Reason.SETTINGS, "settings-r9-h0", run="r9", why="its agent is down"),
    Reason.RUN: claim(Reason.RUN, "r9", run="r9", what="smoke", why="about another 60 s"),
    Reason.RESERVATION: claim(Reason.RESERVATION, since_wall_ns=NOW, expires_wall_ns=NOW + 60 * S),
    Reason.WAIT: claim(Reason.WAIT),
    Reason.DUE_RUN: claim(
        Reason.DUE_RUN, "r9", run="r9", what="smoke", since_wall_ns=NOW, expires_wall_ns=NOW + 60 * S
    ),
    Reason.TRANSFER: claim(
        Reason.TRANSFER, "h0/8f14-1", since_wall_ns=NOW, what="all-reduce 7", why="for another 4.0 s at most"
    ),
    Reason.UNREPORTED: claim(Reason.UNREPORTED, "ben", why="its agent is down"),
    Reason.DRAIN: claim(Reason.DRAIN, what="one pair"),
    Reason.RELOAD: claim(Reason.RELOAD, what="lab.yaml", expires_wall_ns=NOW + 60 * S),
    Reason.OVERRIDE: claim(Reason.OVERRIDE, "ocs1", what="force-blocked"),
}
ASKED = {
    Reason.RUN: PortAction.START,
    Reason.DUE_RUN: PortAction.RESERVE,
    Reason.TRANSFER: PortAction.CHANGE,
    Reason.UNREPORTED: PortAction.CHANGE,
    Reason.DRAIN: PortAction.TRANSFER,
}
"""What each reason bars, where it is not a lease."""


ENDS_IT = re.compile("`hwd (rollback|confirm|abort|release|give-up|lease release|lease kick) ")
TO_WAIT = ("ait", "Reserve another", "It ends ", "It goes on", "come after it", "by themselves")
ITS_OWNERS = ("up to ben", "up to who", " may ", "whose owner is gone", "never will be")


def test_who_is_refused_is_to_wait_first_and_to_end_the_work_of_another_is_up_to_its_owner() -> None:
    for (reason, found), waits in product(CLAIMS.items(), (False, True)):
        text = found.text(NOW, waits=waits)
        for ends in ENDS_IT.finditer(text):
            before = text[: ends.start()]
            assert any(words in before for words in TO_WAIT), text
            assert any(words in before.rpartition(". ")[2] or words in text[ends.end() :] for words in ITS_OWNERS), text
        assert reason is Reason.IN_DOUBT or found.owner in text or str(found.run) in text


def test_each_reason_says_what_whose_until_when_and_what_to_do() -> None:
    said = ""
    for reason in Reason:
        with pytest.raises(RefusedError) as raised:
            ledger_of(CLAIMS[reason]).check(
                SOMEBODY, [PORT, "h1.eth0"], ASKED.get(reason, PortAction.LEASE), now_wall_ns=NOW
            )
        said += f"{reason}\n  {raised.value}\n"
    check_golden(Path(__file__).with_name("refusals.txt"), said)


# what a stranger is refused, by reason
BARRED = {
    Reason.LEASE: "lease reserve change override set put-back fault",
    Reason.RECONFIGURATION: "lease rely change override set put-back transfer",
    Reason.CUT_OFF: "lease rely change override set put-back transfer",
    Reason.IN_DOUBT: "lease rely change override set put-back",
    Reason.PREPARED_SET: "lease rely change override set",
    Reason.DELEGATION: "lease reserve change override set",
    Reason.SETTINGS: "lease change override set start",
    Reason.RUN: "start",
    Reason.RESERVATION: "lease reserve change override start",
    Reason.WAIT: "lease",
    Reason.DUE_RUN: "reserve",
    Reason.TRANSFER: "change override",
    Reason.UNREPORTED: "change override",
    Reason.DRAIN: "transfer",
    Reason.RELOAD: "lease reserve rely change start transfer",
    Reason.OVERRIDE: "lease change transfer",
}


def test_stranger_is_refused_what_the_reason_bars_and_nothing_else() -> None:
    for reason in Reason:
        ledger = ledger_of(CLAIMS[reason])
        found = [action for action in PortAction if refused(ledger, Asker(run="r1"), action)]
        assert found == [PortAction(name) for name in BARRED[reason].split()], reason
        assert not any(refused(ledger, Asker(run="r1"), action, "h0.eth1", "ocs1.3") for action in PortAction), reason


@pytest.mark.parametrize("reason", [Reason.TRANSFER, Reason.UNREPORTED])
def test_only_who_may_cut_transfers_changes_light_under_one(reason: Reason) -> None:
    ledger = ledger_of(CLAIMS[reason], leased())
    assert refused(ledger, Asker(lease="l1", cuts=False), PortAction.CHANGE)
    assert not refused(ledger, Asker(lease="l1", cuts=True), PortAction.CHANGE)
    assert "leased to ada" in refused(ledger, Asker(cuts=True), PortAction.CHANGE), "it passes nothing else"


def test_transfer_goes_over_ports_of_a_reconfiguration_that_is_at_rest_alone() -> None:
    assert refused(ledger_of(claim(Reason.RECONFIGURATION)), SOMEBODY, PortAction.TRANSFER)
    at_rest = ledger_of(claim(Reason.RECONFIGURATION, at_rest=True))
    assert not refused(at_rest, SOMEBODY, PortAction.TRANSFER)
    assert refused(at_rest, SOMEBODY, PortAction.CHANGE)


def test_reconfiguration_under_a_lease_passes_it_and_no_other() -> None:
    ledger = ledger_of(leased(), leased("l2", "bob", "ocs1.3"))
    assert not refused(ledger, Asker(lease="l1"), PortAction.CHANGE)
    assert "leased to ada (l1)" in refused(ledger, Asker(lease="l2"), PortAction.CHANGE)
    assert "leased to ada (l1)" in refused(ledger, Asker(lease="l1"), PortAction.LEASE), "not twice"
    assert not refused(ledger, Asker(lease="l1"), PortAction.FAULT)


def test_run_sets_ports_under_its_leases_and_drives_only_under_the_one_that_it_names() -> None:
    ledger = ledger_of(leased("l1", "run r1"))
    assert not refused(ledger, RUN, PortAction.SET)
    assert not refused(ledger, RUN, PortAction.FAULT)
    assert not refused(ledger, RUN, PortAction.PUT_BACK)
    assert "leased to run r1 (l1)" in refused(ledger, RUN, PortAction.CHANGE), "another branch has it"
    assert "leased to run r1 (l1)" in refused(ledger, Asker(run="r2"), PortAction.SET)


def test_person_with_the_name_of_a_run_is_not_that_run() -> None:
    ledger = ledger_of(leased("l1", "r1"))
    assert refused(ledger, RUN, PortAction.SET)


def test_lease_that_is_over_bars_nobody_and_nobody_acts_under_it() -> None:
    ledger = ledger_of(leased(expires_s=1_000))
    assert not refused(ledger, SOMEBODY, PortAction.LEASE)
    gone = "lease l1: not in force; it expired at "
    assert refused(ledger, Asker(lease="l1"), PortAction.CHANGE).startswith(gone)
    never = "lease l7: no lease of this id is known: none is in force, nor among the last 1000 that ended. See "
    assert refused(Ledger(), Asker(lease="l7"), PortAction.CHANGE, "x.1").startswith(never)


def test_oldest_lease_is_named_first_and_leases_before_other_reasons() -> None:
    ledger = ledger_of(
        claim(Reason.RECONFIGURATION, "x1", "ocs1.1", "ocs1.2"),
        leased("l2", "bob", "ocs1.1", taken_s=900),
        leased("l1", "carol", "ocs1.2", "ocs1.3", taken_s=800),
    )
    found = [*ledger.refusals(SOMEBODY, ["ocs1.1", "ocs1.2"], PortAction.LEASE, now_wall_ns=NOW)]
    assert [(one.claim.id if one.claim else "", sorted(one.ports)) for one in found] == [
        ("l1", ["ocs1.2"]),
        ("l2", ["ocs1.1"]),
        ("x1", ["ocs1.1", "ocs1.2"]),
    ]
    first = ledger.may(SOMEBODY, ["ocs1.1", "ocs1.2"], PortAction.LEASE, now_wall_ns=NOW)
    assert first == found[0]


def test_reconfiguration_relies_on_ports_against_reconfigurations_and_overrides_alone() -> None:
    made = replace(claim(Reason.RECONFIGURATION, "x1", "ocs1.1"), relies_on=frozenset({"ocs1.2"}))
    ledger = ledger_of(made)
    barred = [action for action in PortAction if refused(ledger, SOMEBODY, action, "ocs1.2")]
    assert barred == [PortAction.RELY, PortAction.OVERRIDE]
    itself = Asker(reconfiguration="x1")
    assert not refused(ledger, itself, PortAction.RELY, "ocs1.1", "ocs1.2")
    assert not refused(ledger, itself, PortAction.CHANGE, "ocs1.1", "ocs1.2")
    assert refused(ledger, Asker(reconfiguration="x2"), PortAction.RELY, "ocs1.2")


@pytest.mark.parametrize(("theirs", "mine"), [(True, False), (False, True), (True, True)])
def test_whole_switch_is_for_one_alone_whichever_wants_it_whole(theirs: bool, mine: bool) -> None:
    made = replace(claim(Reason.RECONFIGURATION, "x1", "ocs1.1"), switches=frozenset({"ocs1", "ocs2"}), whole=theirs)
    refusal = ledger_of(made).may(
        Asker(reconfiguration="x2", switches=frozenset({"ocs1", "ocs3"}), whole=mine),
        ["ocs1.9", "ocs3.1"],
        PortAction.RELY,
        now_wall_ns=NOW,
    )
    assert refusal is not None
    assert str(refusal).startswith("ocs1: reconfiguration x1 is under way on it")


def test_switch_of_what_was_cut_off_is_no_reconfigurations_and_its_other_ports_can_be_leased() -> None:
    ledger = ledger_of(replace(claim(Reason.CUT_OFF, "x1", "ocs1.1"), switches=frozenset({"ocs1"}), whole=True))
    one, two = (Asker(reconfiguration="x2", switches=frozenset({name})) for name in ("ocs1", "ocs2"))
    assert refused(ledger, one, PortAction.RELY, "ocs1.5").startswith("ocs1: reconfiguration x1")
    assert not refused(ledger, two, PortAction.RELY, "ocs2.5")
    for action in (PortAction.LEASE, PortAction.OVERRIDE):
        assert not refused(ledger, one, action, "ocs1.5")
        assert refused(ledger, one, action, "ocs1.1").startswith("ocs1.1: reconfiguration x1")


def test_settings_are_passed_by_their_run_and_by_a_lease_on_the_ports() -> None:
    settings = claim(Reason.SETTINGS, "settings-r1-h0", PORT, "h0.eth1", run="r1")
    ledger = ledger_of(settings, leased("l1", "ada", PORT))
    assert not refused(ledger, RUN, PortAction.CHANGE, "h0.eth1")
    assert not refused(ledger, Asker(lease="l1"), PortAction.CHANGE, PORT)
    assert refused(ledger, Asker(lease="l1"), PortAction.CHANGE, PORT, "h0.eth1").startswith("h0.eth1: settings of run")
    assert not refused(ledger, RUN, PortAction.SET, "h0.eth1")
    assert refused(ledger, Asker(run="r2"), PortAction.SET, "h0.eth1")


def test_put_back_waits_for_settings_of_active_runs_and_a_start_for_those_of_ended_ones() -> None:
    ledger = ledger_of(claim(Reason.SETTINGS, "settings-r2-h0", run="r2", why="its agent is down"))
    assert not refused(ledger, RUN, PortAction.PUT_BACK)
    assert "settings of run r2" in refused(ledger, RUN, PortAction.START)
    ledger.claim(claim(Reason.RUN, "r2", "ocs1.9", run="r2"))
    assert "settings of run r2" in refused(ledger, RUN, PortAction.PUT_BACK)
    assert not refused(ledger, RUN, PortAction.START)
    assert (ledger.is_active("r2"), ledger.is_active("r1"), ledger.is_active(None)) == (True, False, False)


def test_claim_of_the_same_reason_and_id_replaces_the_old_one() -> None:
    ledger = ledger_of(claim(Reason.CUT_OFF, "x1", "ocs1.1"), claim(Reason.RECONFIGURATION, "x1", "ocs1.2"))
    ledger.claim(claim(Reason.CUT_OFF, "x1", "ocs1.3"))
    assert [sorted(one.ports) for one in ledger.all(Reason.CUT_OFF, Reason.RECONFIGURATION)] == [["ocs1.3"], ["ocs1.2"]]
    assert ledger.get(Reason.CUT_OFF, "x2") is None


def test_refusal_has_the_reason_of_the_moment_when_it_is_asked() -> None:
    ledger = ledger_of(claim(Reason.CUT_OFF, what="one pair"), claim(Reason.DELEGATION, "sel"))
    causes = {"x1": "ocs1: no answer"}
    ledger.report_why(Reason.CUT_OFF, lambda one: causes[one.id])
    assert "not undone yet: ocs1: no answer. " in refused(ledger, SOMEBODY, PortAction.RELY)
    causes["x1"] = "ocs1: refused the login"
    assert "not undone yet: ocs1: refused the login. " in refused(ledger, SOMEBODY, PortAction.RELY)
    (found,) = ledger.all(Reason.CUT_OFF)
    assert found == ledger.get(Reason.CUT_OFF, "x1")
    assert found.why == "ocs1: refused the login"


def test_release_is_told_once_and_frees_the_ports() -> None:
    made = claim(Reason.SETTINGS, "settings-r1-h0", run="r1")
    ledger, told = ledger_of(made), list[Claim]()
    ledger.on_release(told.append)
    assert ledger.release(Reason.SETTINGS, made.id) == made
    assert ledger.release(Reason.SETTINGS, made.id) is None
    assert told == [made]
    assert not any(refused(ledger, SOMEBODY, action) for action in PortAction)


@given(
    st.lists(st.tuples(st.sampled_from(Reason), st.sets(st.sampled_from("abcde"), min_size=1), st.booleans())),
    st.sets(st.sampled_from("abcde")),
    st.sampled_from(PortAction),
)
def test_refusal_names_a_claim_on_exactly_the_ports_that_both_want(
    made: list[tuple[Reason, set[str], bool]], wanted: set[str], action: PortAction
) -> None:
    ledger = Ledger()
    for number, (reason, ports, is_over) in enumerate(made):
        found = claim(reason, f"x{number}", *ports, run=f"r{number}")
        ledger.claim(replace(found, expires_wall_ns=NOW if is_over else NOW + 1))
    refusals = [*ledger.refusals(SOMEBODY, wanted, action, now_wall_ns=NOW)]
    for one in refusals:
        assert one.claim is not None
        assert one.claim.is_in_force(NOW)
        assert action in ROWS[one.claim.reason].bars
        assert one.ports == one.claim.ports & wanted
        assert one.ports
    assert ledger.may(SOMEBODY, wanted, action, now_wall_ns=NOW) == next(iter(refusals), None)


def test_lease_of_another_epoch_is_refused_and_says_which_is_in_force() -> None:
    ledger = ledger_of(replace(leased(), epoch=7))
    assert not refused(ledger, Asker(lease="l1", epoch=7), PortAction.CHANGE)
    text = refused(ledger, Asker(lease="l1", epoch=4), PortAction.CHANGE)
    assert text == "lease l1: epoch 4 is not in force, epoch 7 is. See `hwd lease list`"


def test_reservation_bars_what_overlaps_it_and_nothing_before_or_after() -> None:
    ledger = ledger_of(claim(Reason.RESERVATION, since_wall_ns=NOW + 60 * S, expires_wall_ns=NOW + 120 * S))

    def asks(from_s: float, until_s: float, action: PortAction = PortAction.LEASE) -> str:
        asker = Asker(from_wall_ns=NOW + round(from_s * S), until_wall_ns=NOW + round(until_s * S))
        return refused(ledger, asker, action)

    for action in (PortAction.LEASE, PortAction.RESERVE, PortAction.START):
        assert not asks(0, 60, action), "ends as it begins"
        assert asks(0, 60.1, action)
        assert asks(119.9, 500, action)
        assert asks(70, 80, action)
        assert asks(0, 500, action)
        assert not asks(120, 500, action)
    assert not refused(ledger, SOMEBODY, PortAction.CHANGE), "before its time"


def test_reservation_may_begin_as_a_lease_ends_and_not_before() -> None:
    ledger = ledger_of(leased(expires_s=1_060))
    assert refused(ledger, Asker(from_wall_ns=NOW + 59 * S, until_wall_ns=NOW + 90 * S), PortAction.RESERVE)
    assert not refused(ledger, Asker(from_wall_ns=NOW + 60 * S, until_wall_ns=NOW + 90 * S), PortAction.RESERVE)


def test_change_without_a_lease_of_every_port_is_refused_where_the_testbed_requires_it() -> None:
    ledger = Ledger(lease_required=True)
    ledger.claim(leased("l1", "ada", "ocs1.1"))
    bare = "ocs1.2: this testbed wants a lease for every change"
    assert refused(ledger, SOMEBODY, PortAction.CHANGE, "ocs1.2").startswith(bare)
    assert refused(ledger, Asker(lease="l1"), PortAction.CHANGE, "ocs1.1", "ocs1.2").startswith(bare)
    assert not refused(ledger, Asker(lease="l1"), PortAction.CHANGE, "ocs1.1")
    assert not refused(ledger, SOMEBODY, PortAction.LEASE, "ocs1.2")


def test_lease_that_is_over_is_refused_in_the_words_of_its_end() -> None:
    ledger = Ledger()
    ledger.note_end("l1", "not in force; it was kicked by ben")
    assert refused(ledger, Asker(lease="l1"), PortAction.CHANGE) == "lease l1: not in force; it was kicked by ben"
    ledger.claim(claim(Reason.WAIT, "l2"))
    assert "is not granted yet, it waits in the queue" in refused(ledger, Asker(lease="l2"), PortAction.CHANGE)


RELOADING = claim(Reason.RELOAD, "reload", PORT, "ocs1.1", expires_wall_ns=NOW + 60 * S)


def test_reload_holds_off_none_who_has_its_ports_from_before_and_no_way_back() -> None:
    ledger = ledger_of(
        RELOADING, leased(), claim(Reason.RECONFIGURATION, "x1", "ocs1.1"), claim(Reason.RUN, "r1", run="r1")
    )
    ledger.claim(claim(Reason.WAIT, "w1"))
    for action in (PortAction.RELY, PortAction.CHANGE):
        assert "reload" in refused(ledger, Asker(lease="l1"), action), "what begins under a lease may outlast it"
        assert not refused(ledger, Asker(reconfiguration="x1"), action, "ocs1.1")
        assert not refused(ledger_of(RELOADING), Asker(is_way_back=True), action)
    alone = ledger_of(RELOADING, claim(Reason.RUN, "r1", run="r1"), claim(Reason.WAIT, "w1"), leased())
    assert "reload" not in refused(alone, Asker(run="r1"), PortAction.LEASE)
    assert "reload" not in refused(alone, Asker(request="w1"), PortAction.LEASE)
    found = alone.refusals(Asker(lease="l1"), [PORT], PortAction.LEASE, now_wall_ns=NOW)
    assert Reason.RELOAD in {one.claim.reason for one in found if one.claim}, "it is not renewed"
    prepared = ledger_of(RELOADING, claim(Reason.PREPARED_SET, "s1", "ocs1.1"))
    assert not refused(prepared, Asker(prepared_set="s1"), PortAction.CHANGE, "ocs1.1"), "a switch of a set"
    assert "reload" in refused(ledger_of(RELOADING), Asker(prepared_set="s2"), PortAction.CHANGE), "a new set"
    elsewhere = ledger_of(RELOADING, claim(Reason.RECONFIGURATION, "x2", "ocs1.9"))
    assert "reload" in refused(elsewhere, Asker(reconfiguration="x2"), PortAction.CHANGE), "it has none of them"


@pytest.mark.parametrize("reason", [Reason.LEASE, Reason.RESERVATION, Reason.WAIT, Reason.TRANSFER, Reason.UNREPORTED])
def test_who_waits_for_an_end_is_told_what_ends_it_and_no_option_of_another_command(reason: Reason) -> None:
    text = CLAIMS[reason].text(NOW, waits=True)
    assert "--" not in text
    assert ". " in text


def test_lease_of_a_job_is_nobody_elses_to_act_under() -> None:
    held = lease(
        id="l1", holder="job k3v9a1xx (train)", ports=frozenset({"ocs1.1"}), taken_wall_ns=0, expires_wall_ns=60 * 10**9
    )
    text = held.text(0)
    assert "To end it before is up to whoever started it: `hwd job stop k3v9a1xx`" in text
    assert "--lease" not in text
