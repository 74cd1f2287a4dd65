"""Plain data that can't be changed: what a session knows is handed out, and stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("recorded data can't be changed; change a copy of it (copy.deepcopy)")


class FrozenDict(dict[Any, Any]):
    """A dict, to be read. A deep copy of it is an ordinary dict."""

    __slots__ = ()
    if not TYPE_CHECKING:  # for type checkers it has the methods of a dict
        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return thawed(self)  # type: ignore[no-any-return]


class FrozenList(list[Any]):
    """A list, to be read. A deep copy of it is an ordinary list."""

    __slots__ = ()
    if not TYPE_CHECKING:  # for type checkers it has the methods of a list
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
        append = clear = extend = insert = pop = remove = _refuse
        reverse = sort = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return thawed(self)  # type: ignore[no-any-return]


def frozen(value: Any) -> Any:
    """Plain data with its dicts and lists frozen, all the way down."""
    match value:
        case FrozenDict() | FrozenList():
            return value
        case dict():
            return FrozenDict({key: frozen(item) for key, item in value.items()})
        case list():
            return FrozenList([frozen(item) for item in value])
        case tuple():
            return tuple([frozen(item) for item in value])
        case _:
            return value


def thawed(value: Any) -> Any:
    """A copy whose dicts and lists are ordinary ones."""
    match value:
        case dict():
            return {key: thawed(item) for key, item in value.items()}
        case list():
            return [thawed(item) for item in value]
        case tuple():
            return tuple([thawed(item) for item in value])
        case _:
            return value
