"""What drivers say of themselves and refuse, in `answers.txt`: models and sizes, identities, denials, logins, ports."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path

import pytest

from hwd_drivers.core.errors import BugError, ConfigError, HwdError, LoginError
from hwd_drivers.core.values import Capabilities, Element
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import NoOptions, check_login
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.virtual_time import run_virtual

from ..answers import check_answers
from .stage import Session, Stage, Tapped, named, texts

SPECS = [registry.find(name) for name in registry.names() if registry.distribution_of(name) == "hwd-drivers"]
WITH_LOGIN = [spec.name for spec in SPECS if spec.check is check_login]
Story = Callable[[Stage], Awaitable[str]]


def on_stage(story: Story) -> Callable[[str], str]:
    """Of `DRIVER MODEL SIZE` and options of its twin; in virtual time, where the driver has no threads."""

    def answer(asked: str) -> str:
        words = asked.split()
        stage = Stage(*(word for word in words if "=" not in word), login=("admin", "geheim"), options=named(words))

        async def main() -> str:
            async with stage:
                try:
                    return await story(stage)
                except HwdError as error:
                    said = f"{type(error).__name__}: {error}"
                assert "geheim" not in said
                return said

        return (asyncio.run if stage.spec.threads else run_virtual)(main())

    return answer


def capabilities(asked: str) -> list[str]:
    driver, model, size = (*asked.split(), None)[:3]
    try:
        found = registry.find(str(driver)).capabilities(str(model), size)
    except ConfigError as error:
        return [f"ConfigError: {error}"]
    return [f"{field.name}: {shown(getattr(found, field.name)) or 'none'}" for field in fields(Capabilities)]


def shown(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    if len(value) > 40:
        return f"{value[0]} ... {value[-1]}, {len(value)} of them"
    return ", ".join(
        " or ".join(texts(state) or "dark" for state in one.states) if isinstance(one, Element) else str(one)
        for one in value
    )


@on_stage
async def identity(stage: Stage) -> str:
    _, switch = await stage.start_and_open()
    return str(await switch.identify())


@on_stage
async def denial(stage: Stage) -> str:
    _, switch = await stage.start_and_open()
    stage.twin.faults.deny_next = twin_of(stage.spec).denial
    element = stage.capabilities.elements[0].states if stage.capabilities.elements else ((), ())
    gone, made = element[:2]
    await switch.change(remove=texts(gone), add=texts(made) or "1A-2B")
    return "it was done"


async def refused_login(stage: Stage) -> str:
    """The same each time, and no session is left."""
    twin = await stage.start(user="admin", password="other")
    with pytest.raises(LoginError):
        await stage.open()
    with pytest.raises(LoginError) as refused:
        await stage.open()
    await asyncio.sleep(0.1)
    fronts = getattr(twin, "fronts", {}).values()
    assert not any(front.sessions for front in fronts)
    raise refused.value


async def other_size(stage: Stage) -> str:
    says = stage.options.pop("says")
    await stage.start()
    stage.size = str(says)
    return str(await (await stage.open()).capabilities())


async def other_port(stage: Stage) -> str:
    """Refused before anything is sent."""
    stage.dialer = dialer = Tapped()
    _, switch = await stage.start_and_open()
    sent = len(dialer.said)
    said = set()
    for pair in ("999A-1B", "1A-999B", "1-2"):
        with pytest.raises(ConfigError) as refused:
            await switch.change(add=pair)
        said.add(str(refused.value))
    assert len(dialer.said) == sent
    return "\n".join(sorted(said))


def test_drivers_say_what_they_said() -> None:
    check_answers(
        Path(__file__).with_name("answers.txt"),
        {
            "capabilities of": capabilities,
            "identity of": identity,
            "denial of": denial,
            "refused login of": on_stage(refused_login),
            "another size than that of": on_stage(other_size),
            "ports that are none of": on_stage(other_port),
        },
    )


@pytest.mark.parametrize("driver", [spec.name for spec in SPECS])
def test_other_options_and_a_change_of_nothing_are_bugs_and_a_login_is_needed(driver: str) -> None:
    async def story(stage: Stage) -> str:
        with pytest.raises(ConfigError, match="no_such: is an unknown field"):
            stage.make(no_such=1)
        await stage.start()
        if driver in WITH_LOGIN:
            assert "geheim" not in repr(stage.context())
            with pytest.raises(ConfigError, match="needs a login"):
                await stage.open(stage.context(user=None))
        if stage.spec.options is not NoOptions:
            with pytest.raises(BugError, match=f"not {stage.spec.options.__name__}"):
                await stage.open(stage.context(options=NoOptions()))
        switch: Session = await stage.open()
        with pytest.raises(BugError, match="no crossconnect"):
            await switch.change()
        return "done"

    assert on_stage(story)(driver) == "done"
