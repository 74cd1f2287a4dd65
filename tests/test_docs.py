"""README and docs: their examples run, their links lead somewhere, they leave no name out.

The ``python`` blocks of a page are one program, run in order in an empty folder. Sessions with
``>>>`` are checked against the output they show; they are a program of their own. A block under
``<!-- not run: reason -->`` has to compile, no more; ``await`` may stand alone in it.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

import turnstream
from turnstream.actors.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OPENING = re.compile(r" *(?P<fence>`{3,}|~{3,}) *(?P<language>[\w-]*)")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: +(\S+)", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: the number of its first line, its code, and whether it is to be run."""

    line: int
    language: str
    code: str
    runs: bool

    @property
    def is_session(self) -> bool:
        return self.code.lstrip().startswith(">>>")


def blocks(text: str) -> Iterator[Block]:
    lines = enumerate(text.splitlines(), 1)
    above = ""
    for number, line in lines:
        if opening := OPENING.match(line):
            inside: list[str] = []
            for _, code in lines:
                if code.strip() == opening["fence"]:
                    break
                inside.append(code)
            code = textwrap.dedent("\n".join(inside))
            yield Block(number + 1, opening["language"], code, NOT_RUN.match(above) is None)
        if line.strip():
            above = line.strip()


def in_place(parts: Iterable[Block]) -> str:
    """The blocks on the lines they have in the page, so that a traceback names those."""
    lines: list[str] = []
    for block in parts:
        lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines) + "\n"


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(read(page)) if block.language in ("python", "pycon")]


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stdout + done.stderr


def with_examples() -> Iterator[Any]:
    """The pages that have some; a quick run takes what a newcomer reads first."""
    for page in filter(python_blocks, PAGES):
        first = page.parent.name in (ROOT.name, "tutorials")
        yield pytest.param(page, marks=() if first else pytest.mark.slow, id=page_id(page))


@pytest.mark.parametrize("page", list(with_examples()))
def test_the_examples_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    examples = python_blocks(page)
    program = [block for block in examples if block.runs and not block.is_session]
    session = [block for block in examples if block.runs and block.is_session]
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    for block in examples:
        if not block.runs:
            code = in_place([block])
            compile(code, page_id(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if program:
        script = tmp_path / f"{page.stem}.py"
        script.write_text(in_place(program), encoding="utf-8")
        run(script, cwd=cwd)
    if session:
        script = tmp_path / f"{page.stem}.txt"
        script.write_text(in_place(session), encoding="utf-8")
        run("-m", "doctest", "-o", "ELLIPSIS", script, cwd=cwd)


def commands() -> Iterator[tuple[str, ...]]:
    """Each command line with ``turnstream`` that a page shows, without the program's name."""
    for page in PAGES:
        for block in blocks(read(page)):
            if block.language in ("console", "sh", "shell", "bash"):
                for line in block.code.splitlines():
                    yield from turnstream_calls(line, prompted=block.language == "console")


def turnstream_calls(line: str, *, prompted: bool) -> Iterator[tuple[str, ...]]:
    if prompted and not line.startswith("$ "):
        return
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    call: list[str] | None = None
    for token in [*lexer, ";"]:
        if set(token) <= set(lexer.punctuation_chars):
            if call is not None:
                yield tuple(call)
            call = None
        elif call is not None:
            call.append(token)
        elif token == "turnstream" or token.endswith("/turnstream"):
            call = []


@pytest.mark.parametrize("call", sorted(set(commands())), ids=" ".join)
def test_a_command_that_is_shown_exists(call: tuple[str, ...]) -> None:
    words = [word for word in call if not word.startswith("-")]
    options = {word.partition("=")[0] for word in call if word.startswith("-")}
    shown = help_of(*words[:1])
    assert {option for option in options if option not in shown} == set()


def help_of(*command: str) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setattr(sys, "argv", ["turnstream", *command, "--help"])
        patch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit, match="0"):
            main()
    return out.getvalue()


def prose(text: str) -> str:
    """The page without its fenced blocks and code spans, in which nothing is a link."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        opening = OPENING.match(line)
        if not fence and opening:
            fence = opening["fence"]
        elif fence:
            fence = "" if line.strip() == fence else fence
        else:
            kept.append(re.sub(r"`[^`]*`", "", line) if "](" in line else line)
    return "\n".join(kept)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(read(page)), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_inside_the_docs_lead_somewhere(page: Path) -> None:
    targets = [one or other for one, other in LINK.findall(prose(read(page)))]
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_reference_names_every_public_name() -> None:
    reference = ROOT / "docs/reference"
    if not reference.exists():
        pytest.skip("there is no reference yet")
    text = "\n".join(read(page) for page in reference.rglob("*.md"))
    code = " ".join(re.findall(r"`+([^`]+)`+", text))
    named = set(re.findall(r"\w+", code))
    assert set(turnstream.__all__) - named == set()


def test_examples_in_docstrings_show_what_happens() -> None:
    folders = ("actors", "events", "projections", "stores")
    modules = [each.name for each in walk_packages(turnstream.__path__, "turnstream.")]
    failed = [
        name
        for name in modules
        if name.split(".")[1] in folders
        and doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS).failed
    ]
    assert failed == []
