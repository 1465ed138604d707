"""Help texts of the twin's commands: `--help`, and a group without a command, in the form of SONiC's (click)."""

from collections.abc import Sequence
from typing import Final

WORDS: Final = ("--help", "-h", "-?")
LIST: Final = "<a_side>-<b_side>[,<a_side>-<b_side>...]"

COMMANDS: Final = {
    ("show", "ocs", "cross-connect", "config"): ("", "Show configured OCS cross-connects"),
    ("show", "ocs", "cross-connect", "status"): ("", "Show the status of OCS cross-connects"),
    ("show", "ocs", "port", "config"): ("", "Show labels and states of OCS ports"),
    ("show", "ocs", "port", "status"): ("", "Show the status of OCS ports"),
    ("show", "ocs", "port-mapping"): ("", "Show the mapping of faceplate ports to engine ports"),
    ("show", "ocs", "factory-insertion-loss"): ("", "Show the factory insertion loss of cross-connects"),
    ("show", "version"): ("", "Show version information"),
    ("config", "ocs", "cross-connect", "add"): (f"{LIST} [update|safe|overwrite]", "Add OCS cross-connects"),
    ("config", "ocs", "cross-connect", "delete"): (LIST, "Delete OCS cross-connects"),
    ("config", "ocs", "port", "state"): ("<port_name> <normal|force_blocked>", "Set the state of an OCS port"),
    ("config", "ocs", "port", "label"): ("<port_name> <label_info>", "Set the label of an OCS port"),
}
"""Arguments and meaning of each command, as the design lists them (section 9); the wording is ours."""

OPTIONS: Final = "Options:\n  -?, -h, --help  Show this message and exit.\n"


def help_page(words: Sequence[str]) -> str | None:
    """The page for `--help` after a command, or for a group of commands alone; None for other words."""
    asked = any(word in WORDS for word in words)
    path = tuple(words[: next((place for place, word in enumerate(words) if word in WORDS), len(words))])
    command = next((known for known in COMMANDS if path[: len(known)] == known), None)
    if command is not None:
        if not asked:
            return None
        arguments, meaning = COMMANDS[command]
        return f"Usage: {' '.join([*command, '[OPTIONS]', arguments]).rstrip()}\n\n  {meaning}\n\n{OPTIONS}"
    members = {known[len(path)]: known for known in COMMANDS if known[: len(path)] == path and path}
    if not members:
        return None
    width = max(map(len, members))
    lines = [
        f"  {name:{width}}  {COMMANDS[known][1] if len(known) == len(path) + 1 else f'OCS {name}'}"
        for name, known in sorted(members.items())
    ]
    return f"Usage: {' '.join(path)} [OPTIONS] COMMAND [ARGS]...\n\n{OPTIONS}\nCommands:\n" + "\n".join(lines) + "\n"
