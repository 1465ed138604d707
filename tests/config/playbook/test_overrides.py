"""Apply steps that an interlock would refuse, and those that override it."""

from collections.abc import Callable
from dataclasses import replace

from hwd.config.playbook.playbook import ApplyStep, LoadedPlaybook
from hwd.model.interlock import InterlockName, InterlockRules
from hwd.model.testbed import Testbed

HEAD = "playbook: p\nsteps:\n"
Read = Callable[..., LoadedPlaybook]


def forbidding(opus: Testbed, *, allowed: bool = True) -> tuple[Testbed, str]:
    """The rack with its first two ports on one switch forbidden, and those as a link."""
    ports = [str(port.id) for host in opus.hosts.values() for port in host.ports if port.rail == 0][:2]
    pair = frozenset(port.id for port in opus.ports() if str(port.id) in ports)
    rules = InterlockRules(
        overridable=frozenset({InterlockName.FORBIDDEN_PAIR} if allowed else ()), forbidden_ports={pair: "not these"}
    )
    return replace(opus, interlocks=rules), "<->".join(ports)


def test_what_would_be_refused_is_a_warning_at_its_step_and_the_playbook_can_be_used(read: Read, opus: Testbed) -> None:
    testbed, link = forbidding(opus)
    loaded = read(f"{HEAD}  - apply: {{links: {link}}}\n", testbed=testbed)
    (problem,) = loaded.problems
    assert (problem.line, problem.path, problem.warning) == (3, "steps[0].apply", True)
    assert problem.text.startswith(f"interlock forbidden-pair refused: {link}: ")
    assert loaded.playbook is not None


def test_an_override_is_part_of_the_request_and_ends_the_warning(read: Read, opus: Testbed) -> None:
    testbed, link = forbidding(opus)
    loaded = read(f"{HEAD}  - apply: {{links: {link}, override: {{forbidden-pair: in the dark}}}}\n", testbed=testbed)
    assert loaded.problems == ()
    (step,) = loaded.require().steps
    assert isinstance(step, ApplyStep)
    assert step.request.body.overrides == {InterlockName.FORBIDDEN_PAIR: "in the dark"}


def test_an_override_that_the_testbed_does_not_allow_is_an_error_at_its_key(read: Read, opus: Testbed) -> None:
    testbed, link = forbidding(opus, allowed=False)
    loaded = read(f"{HEAD}  - apply: {{links: {link}, override: {{forbidden-pair: in the dark}}}}\n", testbed=testbed)
    (problem,) = loaded.problems
    assert (problem.path, problem.warning) == ("steps[0].apply.override", False)
    assert "cannot be overridden: the testbed file does not allow it" in problem.text
