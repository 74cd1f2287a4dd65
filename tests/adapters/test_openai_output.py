"""Which schemas OpenAI's servers are held to, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from asking import request
from msgspec import Meta, Struct

from turnstream.actors.adapters.openai_output import asked_output
from turnstream.actors.outputs import Output


class Place(Struct):
    city: str
    heat: int | None


class Trip(Struct):
    """A trip."""

    places: list[Place]
    kind: Literal["short", "long"]
    days: Annotated[int, Meta(ge=1)]


class Tree(Struct):
    name: str
    children: list[Tree]


class Loose(Struct):
    city: str
    heat: int = 0


class Cat(Struct, tag=True):
    name: str


class Dog(Struct, tag=True):
    name: str


class Pets(Struct):
    pets: list[Cat | Dog]


class Nothing(Struct):
    pass


@dataclass
class Bag:
    anything: dict[str, int]


class Open(Struct):
    something: Any


class Short(Struct):
    text: Annotated[str, Meta(max_length=3)]


class Free(Struct):
    fields: dict


def asked(kind: Any) -> tuple[str, dict[str, Any] | None]:
    schema = Output("agent", kind).schema
    return asked_output(request(instructions="Be brief.", output=schema))


@pytest.mark.parametrize("kind", [Place, Trip, Nothing])
def test_where_every_field_has_to_be_there_the_schema_is_strict(kind: Any) -> None:
    instructions, output = asked(kind)
    assert instructions == "Be brief." and output is not None
    assert output["strict"] is True and output["name"] == kind.__name__
    assert_closed(output["schema"])


@pytest.mark.parametrize("kind", [Loose, Bag, Pets, Open, Short, Free, dict[str, int]])
def test_where_not_it_is_a_hint_and_stays_as_it_is(kind: Any) -> None:
    _, output = asked(kind)
    assert output is not None and output["strict"] is False
    assert output["schema"] == Output("agent", kind).schema


@pytest.mark.parametrize("kind", [list[int], int, str | None, Tree, Cat | Dog])
def test_a_schema_that_is_not_of_an_object_is_told_in_words(kind: Any) -> None:
    instructions, output = asked(kind)
    assert output is None
    assert instructions.startswith("Be brief.\n\n") and "JSON" in instructions


def test_without_a_type_nothing_is_asked_for() -> None:
    assert asked_output(request(instructions="Be brief.")) == ("Be brief.", None)


def test_a_name_is_made_of_what_names_are_made_of() -> None:
    schema = {"type": "object", "title": "List[Größe]" * 20, "properties": {}, "required": []}
    _, output = asked_output(request(output=schema))
    assert output is not None and output["name"].startswith("List_Gr__e_")
    assert len(output["name"]) == 64


def test_the_schema_of_the_agent_is_not_changed() -> None:
    schema = Output("agent", Trip).schema
    before = repr(schema)
    asked_output(request(output=schema))
    assert repr(schema) == before


def assert_closed(schema: Any) -> None:
    """Each object in it names its fields, all of which are required, and has no other."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])
        for each in schema.values():
            assert_closed(each)
    elif isinstance(schema, list):
        for each in schema:
            assert_closed(each)
