"""A sequence that is immutable and grows at its end in constant time.

A conversation of thousands of messages is extended several times a turn. Copying it each time
would make a turn dearer the longer the conversation is, so a sequence shares one list with the
sequence it was extended from: each sees only its own length of it. The first extension of a
sequence may write on in the shared list; any other one copies. Which is first is settled by
taking a token out of a one-element list, which is atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Self, TypeVar, overload

T_ = TypeVar("T_")


class Growing(Sequence[T_]):
    """Items in order. Equal to any sequence of equal items."""

    __slots__ = ("_items", "_length", "_token")

    def __init__(self, items: Iterable[T_] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)
        self._token = [True]

    def extended(self, items: Iterable[T_]) -> Self:
        """This sequence with ``items`` after it."""
        grown = self.__new__(type(self))
        grown._items = self._writable()
        grown._items.extend(items)
        grown._length = len(grown._items)
        grown._token = [True]
        return grown

    def first(self, count: int) -> Self:
        """The first ``count`` items."""
        if count >= self._length:
            return self
        prefix = self.__new__(type(self))
        prefix._items, prefix._length, prefix._token = self._items, max(count, 0), []
        return prefix

    @property
    def last(self) -> T_ | None:
        """The last item; None where there is none."""
        return self._items[self._length - 1] if self._length else None

    def _writable(self) -> list[T_]:
        try:
            self._token.pop()
        except IndexError:
            return self._items[: self._length]
        return self._items

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_, ...]: ...
    def __getitem__(self, index: int | slice) -> T_ | tuple[T_, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"item {index} of a sequence of {self._length}")
        return self._items[position]

    def __iter__(self) -> Iterator[T_]:
        return islice(self._items, self._length)

    def __reversed__(self) -> Iterator[T_]:
        return (self._items[i] for i in range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, (str, bytes)):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"
