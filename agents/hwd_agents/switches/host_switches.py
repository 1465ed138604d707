"""Switches: the switches that this host drives; opens their drivers, reconnects them, and reports them as events."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from hwd_agents.process.config import SwitchConfig
from hwd_agents.spool.outbox import Emit
from hwd_agents.switches.epochs import Epochs
from hwd_agents.wire import SwitchNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.facts import SwitchDown, SwitchUp
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.transports.dial import Dialer

SOURCE: Final = "switches"


class Switches:
    """One supervisor for each switch. One that cannot be opened says why; the others go on.

    Event `switch`: a document of the supervisor, with its kind without `switch.` as `what`.
    """

    def __init__(
        self,
        configs: Mapping[str, SwitchConfig],
        epochs: Epochs,
        *,
        dialer: Dialer,
        clock: Clock,
        draws: Draws,
        emit: Emit,
        origin: str,
        on_change: Callable[[], None],
    ) -> None:
        self._configs = configs
        self._epochs = epochs
        self._dialer = dialer
        self._clock = clock
        self._emit = emit
        self._origin = origin
        self._on_change = on_change
        self._supervisors = {
            name: Supervisor(name=name, open=partial(self._open, name), clock=clock, sink=self._tell, draws=draws)
            for name in configs
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._configs)

    def get(self, name: str) -> Supervisor:
        """Raises RefusedError when this host drives no switch of this name, LinkError when it is down."""
        supervisor = self._supervisors.get(name)
        if supervisor is None:
            raise RefusedError(f"{name}: this host drives no such switch; it has {', '.join(self._configs) or 'none'}")
        if supervisor.device is None:
            raise LinkError(f"{name}: the switch is down: {supervisor.cause}")
        return supervisor

    async def wait_up(self, name: str) -> None:
        """Wait until it is connected and was read."""
        await self._supervisors[name].wait_up()

    def ports(self, name: str) -> tuple[str, ...]:
        """Ports of this host whose light goes through this switch."""
        return tuple(self._configs[name].ports)

    def runs(self) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
        """The body of each switch's task, by its name; each runs until it is cancelled."""
        return {name: supervisor.run for name, supervisor in self._supervisors.items()}

    def note(self, name: str) -> SwitchNote:
        """The present state of one switch."""
        config, supervisor = self._configs[name], self._supervisors[name]
        identity = supervisor.identity
        return SwitchNote(
            driver=config.driver,
            model=config.model if identity is None else identity.model,
            ports=config.ports,
            up=supervisor.device is not None,
            cause="" if supervisor.device is not None else supervisor.cause or "",
            vendor="" if identity is None else identity.vendor,
            serial="" if identity is None else identity.serial,
            firmware="" if identity is None else identity.firmware,
            epoch=self._epochs.granted(name),
            last_epoch=self._epochs.last(name),
            why_not=self._epochs.why_not(name),
        )

    def notes(self) -> dict[str, SwitchNote]:
        return {name: self.note(name) for name in self._configs}

    def show(self) -> dict[str, Any]:
        """Show the switches as JSON: the note of each, and its `crossconnects`."""
        return {
            name: {**to_plain(note), "crossconnects": self.crossconnects(name)} for name, note in self.notes().items()
        }

    def crossconnects(self, name: str) -> list[dict[str, str]] | None:
        """The crossconnects of its last report, as [{id, state}]; None while it is down: they are unknown."""
        supervisor = self._supervisors[name]
        if supervisor.device is None or supervisor.latest is None:
            return None
        return [{"id": one.crossconnect, "state": one.state.value} for one in supervisor.latest]

    async def _open(self, name: str) -> Device:
        # Imported here: the registry loads pydantic, 10 MB that a host without switches does not need.
        from hwd_drivers.devices import registry

        config = self._configs[name]
        spec = registry.find(config.driver)
        try:
            options = spec.options.model_validate(config.options)
        except ValueError as error:
            raise ConfigError(f"switches.{name}.options: {error}") from error
        context = registry.OpenContext(
            name=name,
            address=config.address,
            dialer=self._dialer,
            clock=self._clock,
            sink=self._tell,
            user=config.user,
            password=config.password if config.password_file is None else _password(name, config.password_file),
            options=options,
            capabilities=spec.capabilities(config.model, config.size),
        )
        try:
            return await registry.open_device(spec, context)
        except ValueError as error:
            raise ConfigError(f"switches.{name}.address: {error}") from error

    def _tell(self, document: Document) -> None:
        data: dict[str, Json] = {"what": document.kind.removeprefix("switch."), **document.fact.to_data()}
        self._emit(
            "switch",
            None,
            earliest_ns=document.at_ns,
            at_ns=document.at_ns,
            source=SOURCE,
            origin=self._origin,
            data=data,
        )
        if isinstance(document.fact, SwitchUp | SwitchDown):
            self._on_change()


def _password(name: str, path: str) -> str:
    what = f"switches.{name}.password_file: {path}"
    return read_user_file(path, most_bytes=SECRET_BYTES_MAX, what=what).text().partition("\n")[0]
