"""Structs as JSON and back: a value that is its text is written as that, and read by its `parse`."""

from collections.abc import Iterable
from typing import Any, TypeVar, overload

import msgspec

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import ValueText

T = TypeVar("T")


def to_json(value: object) -> bytes:
    """The JSON of structs, containers and values."""
    return _to_json(value)


@overload
def from_json(text: bytes | str, kind: type[T]) -> T: ...
@overload
def from_json(text: bytes | str, kind: Any) -> Any: ...
def from_json(text: bytes | str, kind: Any) -> Any:
    """Raises msgspec.DecodeError where it is no JSON, or none of this kind."""
    return msgspec.json.decode(text, type=kind, dec_hook=_read)


def to_plain(value: object) -> Any:
    """Convert a value to dicts, lists and plain values, as the JSON is."""
    return msgspec.to_builtins(value, enc_hook=_text)


@overload
def from_plain(data: object, kind: type[T], *, from_attributes: bool = False) -> T: ...
@overload
def from_plain(data: object, kind: Any, *, from_attributes: bool = False) -> Any: ...
def from_plain(data: object, kind: Any, *, from_attributes: bool = False) -> Any:
    """Raises msgspec.ValidationError where it is none of this kind."""
    return msgspec.convert(data, kind, from_attributes=from_attributes, dec_hook=_read)


def encoder() -> msgspec.json.Encoder:
    """An encoder, for a path that writes often."""
    return msgspec.json.Encoder(enc_hook=_text)


@overload
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder, for a path that reads one kind often."""
    return msgspec.json.Decoder(kind, dec_hook=_read)


def json_schemas(types: Iterable[Any], *, ref_template: str) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """The schemas of these types, and those of the structs in them by name."""
    return msgspec.json.schema_components(types, ref_template=ref_template, schema_hook=_schema)


def _text(value: object) -> str:
    if isinstance(value, str):  # a value, or what a plane or a library made of a text
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _read(kind: type, text: object) -> object:
    if kind is object:
        return text
    if not (issubclass(kind, ValueText) and isinstance(text, str)):
        raise TypeError(f"Expected `{kind.__name__}`, got `{type(text).__name__}`")
    try:
        return kind.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, ValueText):
        return {"type": "string"}
    raise NotImplementedError


_to_json = encoder().encode
