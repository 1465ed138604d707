"""A number with its noun."""


def plural(count: int, one: str, *, many: str | None = None) -> str:
    """`1 link`, `2 links`; `many` where the plural has another ending: `2 switches`."""
    return f"{count} {one}" if count == 1 else f"{count} {many or f'{one}s'}"
