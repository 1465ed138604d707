"""What is right, and what nearly is: paths, lists, rows and bodies of protocols, in `nearly_right.txt`."""

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from hwd_drivers.core.errors import HwdError
from hwd_drivers.families.calient.rest import protocol as calient
from hwd_drivers.families.polatis.restconf import protocol as restconf
from hwd_drivers.families.polatis.restconf import resources
from hwd_drivers.families.sonic import protocol as sonic
from hwd_drivers.families.ttl import models, protocol
from hwd_drivers.families.ttl.wiring import Wiring

from ...answers import check_answers
from ..stage import texts


def said(read: Callable[[str], object]) -> Callable[[str], str]:
    def answer(asked: str) -> str:
        try:
            return str(read(asked))
        except HwdError as error:
            return f"{type(error).__name__}: {error}"
        except ValidationError as error:
            return error.errors()[0]["msg"]

    return answer


def sonic_row(text: str) -> str:
    """Of its cells."""
    cells = [cell.strip("-") for cell in text.split()]
    ((row,), _) = sonic.read_status(sonic.write_table(sonic.STATUS_COLUMNS, [cells]).splitlines())
    return f"{row.pair} {row.state} {row.unknown}".rstrip()


def parts(text: str) -> str:
    """Of `MODEL SIZE WIRING`."""
    model, size, wiring = text.split(" ", 2)
    found = Wiring.model_validate_json(wiring).parts_of("sel0", models.driver.capabilities(model, size))
    return "\n".join(map(repr, found))


def test_what_is_nearly_right_is_refused_as_it_was() -> None:
    check_answers(
        Path(__file__).with_name("nearly_right.txt"),
        {
            "results of two for Calient REST": said(
                lambda text: ["done" if each.done else each.words for each in calient.read_results(text.encode(), 2)]
            ),
            "crossconnects over RESTCONF": said(lambda text: restconf.read_pairs(text.encode())),
            "path of RESTCONF": said(lambda text: resources.parse_path(text)),
            "list of SONiC": said(lambda text: texts(sonic.parse_list(text))),
            "row of SONiC": said(sonic_row),
            "request to a line bank": said(protocol.parse_request),
            "parts of a line bank": said(parts),
        },
    )
