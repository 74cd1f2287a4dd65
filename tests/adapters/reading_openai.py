"""What both of OpenAI's formats have in common, read back."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from turnstream.events import FilePart, ImagePart, ToolCall


def call_of(call_id: str, function: Mapping[str, Any]) -> ToolCall:
    arguments = json.loads(function["arguments"])
    assert isinstance(arguments, dict)
    return ToolCall(call_id, function["name"], arguments)


def data_part(url: str, name: str = "") -> ImagePart | FilePart:
    """An image, or with a ``name`` a file."""
    if not url.startswith("data:"):
        return FilePart(name, url=url) if name else ImagePart(url=url)
    kind, _, encoded = url.removeprefix("data:").partition(";base64,")
    content = b64decode(encoded, validate=True)
    return FilePart(name, kind, data=content) if name else ImagePart(kind, data=content)


def schema_of(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a format, which OpenAI's servers would take."""
    assert output["name"]
    schema: Mapping[str, Any] = output["schema"]
    assert schema["type"] == "object"
    if output["strict"]:
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) == set(schema["properties"])
    return schema
