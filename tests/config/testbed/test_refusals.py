"""All that is said of testbed files with mistakes: `refusals.txt` has the mistakes, and each finding under its own."""

from collections.abc import Callable
from pathlib import Path

from hwd.config.yaml.file_problem import Loaded
from hwd.model.testbed import Testbed

from ...answers import check_answers

Load = Callable[[str], Loaded[Testbed]]

SWITCH = "driver: polatis-tl1, model: polatis-6000, address: 10.0.0.5"
NIC_PORT = "{module: 100g-lr4}"
SOUND = f"""testbed: small
switches: {{ocs1: {{{SWITCH}}}}}
hosts:
  h0: {{nics: {{eth0: {NIC_PORT}}}}}
  h1: {{nics: {{eth0: {NIC_PORT}}}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
"""
OF_ITS_HOST = f"""testbed: small
switches:
  ocs1: {{{SWITCH}}}
  tx0: {{driver: osw, model: 1x4, owner: h0, address: /dev/ttyUSB0}}
composites: {{sel: {{ports: {{1A: tx0.in, 1B: tx0.1}}}}}}
hosts:
  h0: {{nics: {{eth0: {NIC_PORT}}}}}
  h1: {{nics: {{eth0: {NIC_PORT}}}}}
interlocks:
"""


def test_every_mistake_is_told_with_its_line_and_its_place(load: Load) -> None:
    def said(text: str) -> list[str]:
        loaded = load(f"{text}\n")
        problems = [str(problem).partition("testbed.yaml:")[2] for problem in loaded.problems]
        assert (loaded.value is None) == any(not problem.warning for problem in loaded.problems)
        assert "hunter2" not in "\n".join(problems), "a secret is not printed"
        return problems

    def replaced(text: str) -> list[str]:
        old, new = text.split("\n")
        assert old in SOUND
        return said(SOUND.replace(old, new))

    assert said(SOUND) == []
    check_answers(
        Path(__file__).with_name("refusals.txt"),
        {
            "added to the end of a sound file": lambda text: said(SOUND + text),
            "the switch of a sound file": lambda text: said(SOUND.replace(SWITCH, text)),
            "the first NIC port of a sound file": lambda text: said(SOUND.replace(NIC_PORT, text, 1)),
            "a sound file with its first line, wherever it is, as the second": replaced,
            "address of a switch": lambda text: said(
                f'testbed: t\nswitches:\n  sw1: {{driver: osw, model: 1x4, address: "{text}"}}'
            ),
            "jobs added to a sound file": lambda text: said(f"{SOUND}jobs:\n{text}"),
            "interlocks of a sound file with a host's own switch": lambda text: said(OF_ITS_HOST + text),
        },
    )
