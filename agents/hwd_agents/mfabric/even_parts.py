"""Even parts of a number of elements."""


def even_parts(length: int, parts: int) -> list[int]:
    """The lengths of so many parts of whole elements: they differ by one at most, and the first ones are the longer.

    With one part less, each one that is left is at least as long as it was.
    """
    each, longer = divmod(length, parts)
    return [each + (number < longer) for number in range(parts)]
