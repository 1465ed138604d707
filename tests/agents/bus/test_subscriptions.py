import pytest

from hwd_agents.bus.protocol import Incoming
from hwd_agents.bus.subscriptions import Subscriptions, matches


@pytest.mark.parametrize(("topic_filter", "topic"), [("#", "$SYS/x"), ("+/x", "$SYS/x")])
def test_wildcards_leave_the_brokers_own_topics_out(topic_filter: str, topic: str) -> None:
    assert not matches(topic_filter, topic)


def test_only_a_new_filter_needs_the_broker() -> None:
    subscriptions = Subscriptions("memory:")
    got: list[str] = []
    assert subscriptions.add("t/+", lambda incoming: got.append(f"one {incoming.topic}"))
    assert not subscriptions.add("t/+", lambda incoming: got.append(f"two {incoming.topic}"))
    subscriptions.deliver(Incoming(topic="t/a", payload=b"", retained=False, at_ns=0))
    subscriptions.deliver(Incoming(topic="u/a", payload=b"", retained=False, at_ns=0))
    assert got == ["one t/a", "two t/a"]


def test_trouble_is_said_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    subscriptions = Subscriptions("memory:")
    downs: list[str] = []
    subscriptions.on_down(downs.append)
    subscriptions.up()
    for cause in ("lost", "refused", "refused"):
        subscriptions.down(cause)
    subscriptions.up()
    assert [record.getMessage() for record in caplog.records] == ["memory:: lost", "memory:: connected"]
    assert downs == ["lost"]
