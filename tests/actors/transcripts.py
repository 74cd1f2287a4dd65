"""What the tests of formats share: any valid conversation, and how it is told from another."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from turnstream.events import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    render,
)

HALF = "a\ud83d b"

texts = st.text(max_size=8)
words = st.text(min_size=1, max_size=4)
blobs = st.binary(min_size=1, max_size=5)
kinds = st.sampled_from(["image/png", "image/jpeg", "image/svg+xml", "odd kind"])
urls = st.sampled_from(
    ["https://x.org/a.png", "data:image/png;base64,AAAA", "data:image/gif;base64,", "data:nothing"]
)
parts = st.one_of(
    st.builds(TextPart, texts),
    st.builds(ImagePart, kinds, url=urls),
    st.builds(ImagePart, kinds, data=blobs),
    st.builds(FilePart, words, st.sampled_from(["text/plain", "application/octet-stream"]), urls),
    st.builds(FilePart, words, st.sampled_from(["text/plain"]), data=blobs),
)
contents: st.SearchStrategy[Content] = texts | st.lists(parts, min_size=1, max_size=3).map(tuple)
said_by_users = contents | st.just(HALF) | st.just(())

plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        texts,
        st.sampled_from(
            [
                HALF,
                10**400,
                Decimal("1.10"),
                b"\xff",
                date(2026, 1, 1),
                datetime(2026, 1, 1, tzinfo=UTC),
            ]
        ),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(words | st.sampled_from(["$a", "turnstream", HALF]), plain, max_size=3)


@st.composite
def calls(draw: st.DrawFn, call_id: str) -> ToolCall:
    name = draw(st.sampled_from(["find", "save"]))
    if draw(st.integers(0, 4)):
        return ToolCall(call_id, name, draw(arguments))
    malformed = draw(st.sampled_from(["{", "[1]", '{"a": 1}', " ", "null", HALF]) | words)
    return ToolCall(call_id, name, malformed=malformed)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Any conversation that may be a session's, the last turn perhaps unfinished."""
    messages: list[Message] = [UserMessage(draw(said_by_users))]
    for number in range(draw(st.integers(0, 4))):
        asked = [draw(calls(f"c{number}.{n}")) for n in range(draw(st.integers(0, 2)))]
        opaque = draw(st.lists(plain, max_size=1)) if draw(st.booleans()) else []
        text = draw(texts | st.just(HALF))
        messages.append(AssistantMessage(text, tuple(asked), tuple(opaque)))
        for each in asked:
            outcome: Any = draw(st.sampled_from(["ok", "error", "rejected", "cancelled"]))
            content = render(draw(contents) or "nothing")
            messages.append(ToolMessage(each.id, each.name, content, outcome))
        if not asked or draw(st.integers(0, 3)) == 0:
            messages.append(UserMessage(draw(said_by_users)))
    if draw(st.integers(0, 3)) == 0:
        messages.append(AssistantMessage("", (draw(calls("open.1")), draw(calls("open.2")))))
    return messages


def exactly(messages: Any) -> list[str]:
    """Messages so that nothing passes for something else: 1 is no 1.0, and NaN is NaN."""
    return [repr(each) for each in messages]
