"""What is built, what is installed, and under which names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import HeaderParser
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import walk_packages
from typing import Any
from zipfile import ZipFile

import pytest

import turnstream

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("actors", "events", "projections", "stores")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources() -> set[str]:
    """Every file of the package, as it is named in a wheel."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [*ROOT.glob("*.py"), ROOT / "py.typed"]
    return {
        f"turnstream/{path.relative_to(ROOT).as_posix()}"
        for path in files
        if "__pycache__" not in path.parts
    }


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and the wheel built from it. Built from a copy: a build leaves files behind that
    would find their way into the next one."""
    checkout = tmp_path_factory.mktemp("checkout") / "my-repo"
    leftovers = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, checkout, ignore=leftovers)
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-P", "-m", "build", "--outdir", str(out), str(checkout)]
    done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture
def wheel(dist: Path) -> ZipFile:
    (path,) = dist.glob("*.whl")
    return ZipFile(path)


@pytest.fixture
def metadata(wheel: ZipFile) -> Message:
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return HeaderParser().parsestr(wheel.read(path).decode())


def test_every_folder_with_modules_is_listed_as_a_package() -> None:
    folders = {path.rpartition("/")[0] for path in sources() if path.endswith(".py")}
    packages = {folder.replace("/", ".") for folder in folders}
    listed = set(PYPROJECT["tool"]["setuptools"]["packages"])
    assert packages - listed == set(), "add these to tool.setuptools.packages in pyproject.toml"
    assert listed - packages == set(), "take these out of tool.setuptools.packages"


def test_every_folder_with_modules_has_an_init() -> None:
    folders = {path.rpartition("/")[0] for path in sources() if path.endswith(".py")}
    assert {f"{folder}/__init__.py" for folder in folders} - sources() == set()


def test_type_checkers_see_every_part_of_the_package() -> None:
    if not (ROOT / ".pkg").exists():
        pytest.skip("only a checkout has the links")
    links = {path.name for path in (ROOT / ".pkg/turnstream").iterdir()} - {"__pycache__"}
    parts = {path.split("/")[1] for path in sources()}
    assert links == parts, "each needs a link in .pkg/turnstream, which only type checkers read"


def test_the_version_is_that_of_the_project() -> None:
    assert turnstream.__version__ == PYPROJECT["project"]["version"]


def test_the_changelog_tells_of_the_version() -> None:
    assert f"## {turnstream.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="turnstream")
    assert callable(command.load())


def test_the_package_runs_as_a_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "turnstream", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "turnstream" in done.stdout


def test_no_module_is_loaded_under_two_names() -> None:
    for module in walk_packages(turnstream.__path__, "turnstream."):
        if module.name.split(".")[1] in FOLDERS:
            import_module(module.name)
    names: dict[str, set[str]] = {}
    for name, loaded in list(sys.modules.items()):
        origin = os.path.realpath(getattr(loaded, "__file__", None) or "")
        if origin.startswith(tuple(f"{ROOT / folder}{os.sep}" for folder in FOLDERS)):
            names.setdefault(origin, set()).add(name)
    assert {path: found for path, found in names.items() if len(found) > 1} == {}
    assert all(name.startswith("turnstream.") for found in names.values() for name in found)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_holds_the_package_and_nothing_else(wheel: ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert sources() - packed == set(), "add these to package-data in pyproject.toml"
    assert packed - sources() == set()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_says_what_it_needs_and_under_which_licence(metadata: Message) -> None:
    project = PYPROJECT["project"]
    needs = [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert metadata["Version"] == project["version"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert len(needs) == len(project["dependencies"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_source_distribution_can_be_tested(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    tests = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {*tests, "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"} - packed == set()
