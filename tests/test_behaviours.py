"""The table of behaviours: every line is there once and whole, and what it names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from test_docs import anchors

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/behaviours.md"
ALL = range(1, 158)
TO_COME = {48, 139}
"""What rests on parts that are not there yet."""

ROW = re.compile(
    r"\| S(?P<number>\d+) \| (?P<says>\S[^|]*\S) "
    r"\| (?P<links>\[[^\]]+\]\([^)\s]+\)(; \[[^\]]+\]\([^)\s]+\))*) \| (?P<shown>\S[^|]*\S) \|"
)
LINK = re.compile(r"\]\(([^)#]+)#?([^)]*)\)")
TEST = re.compile(r"`([\w/]+\.py)::((?:\w+::)?test_\w+)`")


class Row(NamedTuple):
    number: int
    says: str
    links: str
    shown: str

    @property
    def tests(self) -> list[tuple[str, ...]]:
        """The file and the name of each test."""
        return TEST.findall(self.shown)


def rows() -> Iterator[Row]:
    lines = [each for each in PAGE.read_text(encoding="utf-8").splitlines() if each[:3] == "| S"]
    assert len(lines) > 100
    for line in lines:
        found = ROW.fullmatch(line)
        assert found, line
        yield Row(int(found["number"]), found["says"], found["links"], found["shown"])


def named_in(path: Path) -> set[str]:
    """Names of the tests of a file, those of classes after the name of their class."""
    body = ast.parse(path.read_text(encoding="utf-8"), path).body
    named = [("", each) for each in body]
    for each in body:
        if isinstance(each, ast.ClassDef):
            named += [(f"{each.name}::", inner) for inner in each.body]
    return {
        f"{of}{each.name}"
        for of, each in named
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[:5] == "test_"
    }


def test_each_behaviour_has_one_line() -> None:
    numbers = [row.number for row in rows()]
    assert numbers == sorted(set(numbers))
    assert set(numbers) & TO_COME == set()
    assert {*numbers, *TO_COME} == set(ALL)


@pytest.mark.parametrize("row", [*rows()], ids=lambda row: f"S{row.number}")
def test_a_line_says_where_its_behaviour_is_described_and_what_shows_it(row: Row) -> None:
    for page, anchor in LINK.findall(row.links):
        described = (PAGE.parent / page).resolve()
        assert described.is_relative_to(ROOT / "docs") and described.exists()
        assert anchor in anchors(described)

    rest = TEST.sub("", row.shown).strip("; ")
    assert rest == "" or re.fullmatch(r"Differs: \S.{15,}", rest), rest
    assert row.tests or rest
    for path, test in row.tests:
        assert path.startswith("tests/") or path == "stores/conformance.py"
        assert test in named_in(ROOT / path), f"{path} has no {test}"
