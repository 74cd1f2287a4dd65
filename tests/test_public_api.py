"""The public names: those of the root, and those of each folder."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import turnstream

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("actors", "events", "projections", "stores")


def declared() -> dict[str, str]:
    """The names that the root declares to type checkers, and the folder each comes from."""
    root = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module or ""
        for block in root.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }


def public(module: ModuleType) -> set[str]:
    """What a module defines or imports without an underscore, other modules left out."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    } - {"TYPE_CHECKING", "annotations"}


def test_the_root_lists_what_it_declares_to_type_checkers() -> None:
    assert sorted(set(turnstream.__all__) - {"__version__"}) == sorted(declared())


def test_a_root_name_is_the_same_object_in_its_folder() -> None:
    for name, folder in declared().items():
        package = import_module(f"turnstream.{folder}")
        assert getattr(turnstream, name) is getattr(package, name)
        assert name in package.__all__


def test_the_typed_tour_of_the_api_leaves_no_name_out() -> None:
    tour = ast.parse((ROOT / "tests/typing/api.py").read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tour) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tour) if isinstance(node, ast.Attribute)}
    assert set(turnstream.__all__) - used == set()


def test_dir_shows_the_public_names() -> None:
    assert set(turnstream.__all__) <= set(dir(turnstream))


def test_a_wrong_root_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="ActorSytem"):
        getattr(turnstream, "ActorSytem")  # noqa: B009


def test_importing_the_root_loads_nothing_else() -> None:
    code = "import sys, turnstream; print(*(sys.modules.keys() - sys.stdlib_module_names))"
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    ours = {name for name in loaded.stdout.split() if name.startswith("turnstream")}
    assert ours == {"turnstream"}
    assert not {"eventsourcing", "msgspec", "pykka"} & set(loaded.stdout.split())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_lists_each_of_its_public_names_once(folder: str) -> None:
    package = import_module(f"turnstream.{folder}")
    # Names that are loaded on demand are on the list before they are in the namespace.
    assert all(hasattr(package, name) for name in package.__all__)
    assert sorted(package.__all__) == sorted({*package.__all__, *public(package)})
