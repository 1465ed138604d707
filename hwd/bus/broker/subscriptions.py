"""Subscriptions of the embedded broker, which may change while amqtt walks over them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amqtt.session import Session
from typing_extensions import override

if TYPE_CHECKING:
    from _collections_abc import dict_items


class Subscriptions(dict[str, list[tuple[Session, int]]]):
    """Sessions by topic filter. amqtt 0.12 walks over them with awaits between, while other clients come and go: it gets copies to walk over.

    Without, a client that connects while another subscribes is dropped (RuntimeError), and a broadcast skips whom it comes to next.
    """

    @override
    def __iter__(self) -> Iterator[str]:
        return iter([*super().keys()])

    @override
    def items(self) -> "dict_items[str, list[tuple[Session, int]]]":
        return {topic_filter: [*sessions] for topic_filter, sessions in super().items()}.items()
