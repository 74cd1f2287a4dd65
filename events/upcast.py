"""From an older stored shape of an event to the present one.

A field added with a default needs nothing here. Any other change gives the tag a new version
and the registry one pure function, from the stored object of version n to that of n + 1:

    UPCASTERS = {("turn_failed", 1): lambda stored: {**stored, "error": stored["message"]}}

The topic says the version: ``turn_failed`` is the first, ``turn_failed@2`` the second. Stored
events are never rewritten. A step sees the object as it is stored, ``type``, ``at`` and ``prev``
included; values in tagged form (see ``tagged``) are to be left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
Upcasters: TypeAlias = Mapping[tuple[str, int], Upcaster]

UPCASTERS: Upcasters = {}


def steps(tag: str, upcasters: Upcasters) -> tuple[Upcaster, ...]:
    """The steps from version 1 of a tag to its present version, in order.

    Raises ``ValueError`` if one is missing in between.
    """
    versions = sorted(version for name, version in upcasters if name == tag)
    if versions != list(range(1, len(versions) + 1)):
        raise ValueError(f"upcasters of {tag!r} start from versions {versions}: there is a gap")
    return tuple(upcasters[tag, version] for version in versions)


def versioned(tag: str, version: int) -> str:
    """The topic of a version of a tag."""
    return tag if version == 1 else f"{tag}@{version}"
