from amqtt.session import Session

from hwd.bus.broker import Subscriptions


def test_filters_may_come_and_go_under_a_walk() -> None:
    held = Subscriptions({"a": [], "b": []})
    walked = []
    for topic_filter in held:
        walked.append(topic_filter)
        held[f"{topic_filter}/more"] = []
    assert walked == ["a", "b"]
    assert len(held) == 4


def test_sessions_may_leave_under_a_walk() -> None:
    sessions: list[tuple[Session, int]] = [(Session(), 0), (Session(), 0)]
    held = Subscriptions({"a": list(sessions)})
    walked = []
    for _, there in held.items():
        for session, _ in there:
            walked.append(session)
            held["a"].pop(0)
    assert walked == [session for session, _ in sessions]
