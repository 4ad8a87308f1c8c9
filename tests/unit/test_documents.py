"""The documents of the code: every path they name exists, and every package is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "veristream"
PATH = re.compile(r"`([\w./-]+/|[\w./-]*[\w-]+\.(?:py|toml|lark|md)|[\w-]+(?:/[\w-]+)+)`")
PLACEHOLDER = "NAME"  # of what is to be added


def paths_in(text: str) -> set[str]:
    """The paths in backticks, outside of blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {path for path in PATH.findall(prose) if PLACEHOLDER not in path}


def is_there(path: str) -> bool:
    folders = (SOURCE, ROOT, ROOT / "testing" / "veristream_testing" / "simulation")
    return any((folder / path).exists() for folder in folders)


@pytest.mark.parametrize(
    "page", ["architecture.md", "adding.md", "adr/0008-folders-that-show-the-theory.md"]
)
def test_every_path_exists(page: str) -> None:
    named = paths_in((ROOT / "docs" / page).read_text(encoding="utf-8"))
    loose = {path for path in named if not is_there(path) and not any(SOURCE.rglob(path))}
    assert len(named) >= 10
    assert loose == set()


def test_every_package_and_module_of_the_top_is_named() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text[text.index("## All packages") : text.index("## Dependencies")]
    named = set(re.findall(r"`([\w./]+)`", table))
    packages = {str(init.parent.relative_to(SOURCE)) for init in SOURCE.rglob("__init__.py")} - {"."}
    modules = {module.name for module in SOURCE.glob("*.py")} - {"__init__.py"}
    assert (packages | modules) - named == set()


def test_every_dependency_is_explained() -> None:
    import tomllib

    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    explained = text[text.index("## Dependencies") :]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *extras["spark"],
        *extras["kabis"],
        *extras["kafka"],
        *extras["tour"],
    ]
    names = {re.split(r"[\[<>=;~ ]", each)[0] for each in wanted} - {"veristream"}
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", explained)} == set()
