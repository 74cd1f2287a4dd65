"""The house rules that a machine can hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS: dict[str, set[str]] = {  # a layer, and what it may use beside the standard library
    "events": {"msgspec"},
    "projections": {"msgspec"},
    "stores": {"eventsourcing", "msgspec", "psycopg", "psycopg_pool"},
    "actors": {"anthropic", "msgspec", "openai", "opentelemetry", "pykka", "rich", "typer"},
}

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    ".pkg",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "__init__.py",
    "__main__.py",
    "docs",
    "py.typed",
    "pyproject.toml",
    "tests",
    *LAYERS,
}

LONG_FILES: dict[str, str] = {  # path: why it may have more than MOST_LINES
    "stores/conformance.py": "one suite, which a store's test takes as a whole",
    "tests/actors/test_directory.py": "one world of actors and senders serves every storm",
    "tests/actors/test_effects.py": "every way an effect can end, of sync and of async code",
    "tests/actors/test_decider.py": "every test drives the one World that plays model and tools",
}
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50

EMPTY_WORDS = {"base", "common", "data", "helper", "impl", "info", "manager", "misc", "util"}
CODE_LOADERS = {"marshal", "pickle", "runpy", "shelve"}
CODE_RUNNERS = {"__import__", "compile", "eval", "exec", "import_module"}
SQL = re.compile(r"\s*(ALTER|CREATE|DELETE|DROP|INSERT|LISTEN|PRAGMA|SELECT|UPDATE|VACUUM|WITH)\b")
NAMES_IN_SQL = {
    "place.schema",
    "self._place.channel",
}  # an address is refused with any other letter
CLOCKS_AND_DICE = {"now", "today", "utcnow", "uuid1", "uuid4"}

PACKAGE = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PURE_PARTS = {
    *("approving", "changing", "commands", "concluding", "decider", "draft", "drift", "editing"),
    *("inputs", "outputs", "patching", "stepping", "stopping"),
}
PURE = [
    path
    for path in PACKAGE
    if path.is_relative_to(ROOT / "events")
    or path.is_relative_to(ROOT / "projections")
    or (path.parent.name == "actors" and path.stem in PURE_PARTS)
]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), path)


def absolute_imports(path: Path) -> set[str]:
    """The top-level names of all modules that are not imported relatively."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import():
                found |= {alias.name.partition(".")[0] for alias in node.names}
            case ast.ImportFrom(level=0, module=str(module)):
                found.add(module.partition(".")[0])
    return found


def imported_at_load(statements: list[ast.stmt]) -> set[str]:
    """What is imported when these statements run: not what functions import when called, nor
    what only type checkers see."""
    found: set[str] = set()
    for node in statements:
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                found.add("." * node.level + (node.module or ""))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                found |= imported_at_load(node.orelse)
            case ast.If() | ast.Try() | ast.With():
                found |= imported_at_load([*node.body, *getattr(node, "orelse", [])])
    return found


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def comments(path: Path) -> list[tokenize.TokenInfo]:
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        return [token for token in tokens if token.type == tokenize.COMMENT]


def says_nothing(identifier: str) -> bool:
    """Whether a name begins or ends with a word that fits anything."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier) or [""]
    return words[0].lower() == "base" or words[-1].lower().removesuffix("s") in EMPTY_WORDS


def test_imports_keep_the_contracts() -> None:
    lint = Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run(
        [lint, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_uses_only_the_libraries_it_is_for(layer: str) -> None:
    strangers = {}
    for path in (ROOT / layer).rglob("*.py"):
        known = LAYERS[layer] | sys.stdlib_module_names | {"turnstream"}
        if found := absolute_imports(path) - known:
            strangers[name(path)] = found
    assert not strangers


@pytest.mark.slow
def test_inside_the_package_imports_are_relative() -> None:
    assert [name(path) for path in PACKAGE if "turnstream" in absolute_imports(path)] == []


def test_loading_the_root_imports_nothing_of_the_package() -> None:
    # Pytest loads the root a second time, under the name of the checkout's folder. Were
    # anything imported there, each of its types would exist twice.
    assert imported_at_load(tree(ROOT / "__init__.py").body) <= {"importlib", "typing"}


def test_pure_code_reads_no_clock_and_draws_no_id() -> None:
    # Whether a module with a clock or a thread can be reached is among the import contracts.
    assert [
        f"{name(path)}:{node.lineno}"
        for path in PURE
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Attribute) and node.attr in CLOCKS_AND_DICE)
        or (isinstance(node, ast.alias) and node.name in CLOCKS_AND_DICE)
    ] == []


def test_nothing_that_was_stored_can_run_code() -> None:
    loaders = {name(path): absolute_imports(path) & CODE_LOADERS for path in PACKAGE}
    assert {path: found for path, found in loaders.items() if found} == {}
    assert [
        f"{name(path)}:{node.lineno}"
        for path in PACKAGE
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Name) and node.id in CODE_RUNNERS)
        or (isinstance(node, ast.alias) and node.name in CODE_RUNNERS)
    ] == []


def made_of(node: ast.AST) -> list[ast.expr]:
    """What is put into the text that this makes, where it makes one that begins as SQL does."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if SQL.match(text):
            return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()) if SQL.match(text):
            return [node.right]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return [*node.args, *(each.value for each in node.keywords)] if SQL.match(text) else []
    return []


def test_no_value_is_ever_put_into_the_text_of_a_statement() -> None:
    assert [
        f"{name(path)}:{part.lineno} {ast.unparse(part)}"
        for path in PACKAGE
        for node in ast.walk(tree(path))
        for part in made_of(node)
        if not ast.unparse(part).isupper() and ast.unparse(part) not in NAMES_IN_SQL
    ] == []


def test_a_file_can_be_read_in_one_sitting() -> None:
    lengths = {name(path): len(path.read_bytes().splitlines()) for path in [*PACKAGE, *TESTS]}
    too_long = {path: length for path, length in lengths.items() if length > MOST_LINES}
    assert too_long.keys() == LONG_FILES.keys(), f"{too_long}: split, or give the reason above"


@pytest.mark.slow
def test_a_function_fits_on_a_screen() -> None:
    assert [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in PACKAGE
        for node in definitions(path)
        if not isinstance(node, ast.ClassDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ] == []


@pytest.mark.slow
def test_names_are_of_the_field() -> None:
    named = {
        (name(path), each)
        for path in PACKAGE
        for each in [path.stem, *(node.name for node in definitions(path))]
    }
    assert {(path, each) for path, each in named if says_nothing(each)} == set()


def test_every_module_says_what_it_is() -> None:
    assert [name(path) for path in PACKAGE if not ast.get_docstring(tree(path))] == []


def test_no_comment_is_a_banner() -> None:
    assert [
        f"{name(path)}:{comment.start[0]}"
        for path in [*PACKAGE, *TESTS]
        for comment in comments(path)
        if re.match(r"#\W*([-=*#~_+])\1{2,}", comment.string)
    ] == []


def test_no_file_names_the_machine_it_was_written_on() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("*.toml")]
    somewhere = re.compile(r"(?<![\w./])/(home|root|work|Users)/")
    sources = [path for path in [*PACKAGE, *TESTS, *pages] if path != Path(__file__)]
    assert [name(p) for p in sources if somewhere.search(p.read_text(encoding="utf-8"))] == []


def test_tests_are_no_package() -> None:
    # Pytest would name them after the folders above, and those depend on the checkout.
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_nothing_else_lies_at_the_root() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    there = {path.partition("/")[0] for path in listed.stdout.split("\0") if path}
    assert there - TOP_LEVEL == set()
