"""Decodes the bodies of HTTP calls, with every finding at once, encodes the answers, and describes both for the OpenAPI
document.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from fastapi import Depends, Request, Response

from hwd.config.json_schema import struct_schemas
from hwd.model.bodies import Body
from hwd.model.field_findings import findings
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_json

B = TypeVar("B", bound=Body)

JSON: Final = "application/json"
NUMBER_MAX: Final = "1.8e308"
REFERENCE: Final = "#/components/schemas/{name}"


def body_of(kind: type[B], *, needed: bool = True) -> Any:
    """A dependency of FastAPI: the body of the request. Where it is not needed and missing, all fields have their
    defaults.
    """

    async def read(request: Request) -> B:
        text = await request.body()
        return kind() if not needed and text in (b"", b"null") else decode(json_of(request, text), kind)

    return Depends(read)


async def object_body(request: Request) -> dict[str, Any]:
    """A dependency of FastAPI: the body of the request, an object with any fields."""
    return json_of(request, await request.body())


def json_of(request: Request, text: bytes) -> dict[str, Any]:
    """Raises ConfigError where the body is missing or no JSON object."""
    if not text:
        raise ConfigError("the body: is missing")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON and not media_type.endswith("+json"):
        raise ConfigError("the body: must be JSON, with the header Content-Type: application/json")
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "out of range" in str(error):
            raise ConfigError(f"the body: {error}: a number lies between -{NUMBER_MAX} and {NUMBER_MAX}") from error
        raise ConfigError(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError("the body: must be an object")
    return data


def decode(data: Mapping[str, Any], kind: type[B]) -> B:
    """Raises ConfigError with every finding, one in a line: `ready_within_s: must be greater than 0`."""
    try:
        return from_plain(data, kind)
    except msgspec.ValidationError as error:  # the first finding
        raise ConfigError("\n".join(findings(data, kind)) or reason_of(error)) from error


def encoded(answer: object, status: int = 200) -> Response:
    """The answer as JSON."""
    return Response(to_json(answer), status, media_type=JSON)


def described(
    body: type[Body] | None = None, *, needed: bool = True, answer: Any = None, status: int = 200
) -> dict[str, Any]:
    """Body and answer of a call, for its part of the OpenAPI document."""
    found: dict[str, Any] = {}
    if body is not None:
        found["requestBody"] = {"content": content_of(body), "required": needed}
    if answer is not None:
        found["responses"] = {str(status): {"content": content_of(answer)}}
    return found


def content_of(kind: Any, media_type: str = JSON) -> dict[str, Any]:
    """The content of a body or an answer, for the OpenAPI document."""
    return {media_type: {"schema": struct_schemas((kind,), ref_template=REFERENCE)[0][0]}}
