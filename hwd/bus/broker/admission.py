"""Who may connect to the embedded broker, and what they may do there.

amqtt 0.12 ends the session of a client id before it asks who connects, never asks whether a will may be published, and
keeps without limit what it has for the sessions of clients that are away.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from amqtt.adapters import BufferReader
from amqtt.contexts import Action
from amqtt.errors import AMQTTError, MQTTError, NoDataError
from amqtt.mqtt.connack import BAD_USERNAME_PASSWORD, NOT_AUTHORIZED
from amqtt.mqtt.connect import ConnectPacket
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session
from typing_extensions import override

from hwd.bus.broker.user_rights import UserRights
from hwd_drivers.core.errors import ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a client may not come in. `code`: of the CONNACK."""

    code: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """`users`: passwords by name. Without any, everybody comes in. `rights` None: who is in may do everything."""

    users: Mapping[str, str] = field(default_factory=dict)
    rights: UserRights | None = None

    def password_matches(self, user: str | None, password: str | None) -> bool:
        """Whether this is the password of this user."""
        known = self.users.get(user or "", "")
        right = hmac.compare_digest(known.encode(), (password or "").encode())
        return not self.users or (right and user in self.users)

    def refusal(self, connect: ConnectPacket) -> Refusal | None:
        """None where the client may come in."""
        user = connect.username if connect.username_flag else None
        if not self.users:
            return None
        if not user or not connect.password_flag:
            return Refusal(code=NOT_AUTHORIZED, why="it gives no user and password")
        if not self.password_matches(user, connect.password):
            why = "a wrong password" if user in self.users else "an unknown user"
            return Refusal(code=BAD_USERNAME_PASSWORD, why=f"it gives {why}")
        if self.rights is None:
            return None
        if not self.rights.may_be(user, connect.client_id or ""):
            return Refusal(code=NOT_AUTHORIZED, why=f"user {user} may not be this client")
        if not connect.clean_session_flag:
            return Refusal(
                code=NOT_AUTHORIZED, why="it asks for a session that outlives its connection, and none is kept here"
            )
        if connect.will_flag and not self.rights.may_publish(user, connect.will_topic or ""):
            return Refusal(code=NOT_AUTHORIZED, why=f"user {user} may not publish its will")
        return None


async def read_connect(packet: bytes) -> ConnectPacket:
    """Raises ProtocolError for what is none."""
    try:
        return await ConnectPacket.from_stream(BufferReader(packet))
    except (AMQTTError, MQTTError, NoDataError) as error:
        raise ProtocolError(f"no CONNECT: {error}") from error


class AdmissionAuth(BaseAuthPlugin):
    """Asks `admission`, which was asked before the session of the client id ended. amqtt makes it by its name."""

    @dataclass
    class Config:
        admission: Admission

    @override
    async def authenticate(self, *, session: Session) -> bool:
        admission: Admission = self.config.admission
        return admission.password_matches(session.username, session.password)


class AdmissionTopics(BaseTopicPlugin):
    """Asks `admission` for each message that comes in and each subscription: a message goes out to subscribers alone."""

    @dataclass
    class Config:
        admission: Admission

    @override
    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        rights: UserRights | None = self.config.admission.rights
        if rights is None or action is Action.RECEIVE:
            return True
        user = (session.username if session is not None else None) or ""
        if action is Action.PUBLISH:
            return rights.may_publish(user, topic or "")
        return rights.may_read(user, topic or "")
