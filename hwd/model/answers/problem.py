"""Problem documents (RFC 9457): the answer of a call that failed."""

from msgspec import UNSET, UnsetType

from hwd.model.answers.answer import Answer


class Problem(Answer, frozen=True, kw_only=True):
    """An error. `type`: a tag URI that names its kind. `exit_status`: what the command line ends with.

    `problems`: of a refused file or body, one text each. `device`, `command`, `code` and `text`: of a device that
    refused a command, in its own words. `switches`: those that could not be rolled back.
    """

    type: str
    title: str
    status: int
    detail: str
    exit_status: int
    problems: list[str] | UnsetType = UNSET
    device: str | UnsetType = UNSET
    command: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    switches: list[str] | UnsetType = UNSET
