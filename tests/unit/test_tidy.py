"""The house rules: each finds what it is there to find."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tidy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools" / "tidy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tidy"] = module
    spec.loader.exec_module(module)
    return module


def findings(tidy: ModuleType, root: Path, name: str, text: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return list(tidy.tidy(root, [name]))


def test_print_belongs_to_the_command_line(tidy: ModuleType, tmp_path: Path) -> None:
    text = "def f():\n    print(1)\n"
    assert findings(tidy, tmp_path, "src/veristream/ir/x.py", text) == [
        "src/veristream/ir/x.py:2: print outside the command line"
    ]
    assert findings(tidy, tmp_path, "src/veristream/cli/x.py", text) == []
    assert findings(tidy, tmp_path, "bench/x.py", text) == []


def test_long_functions_and_files(tidy: ModuleType, tmp_path: Path) -> None:
    function = "def f():\n" + "    x = 1\n" * 60
    (finding,) = findings(tidy, tmp_path, "src/veristream/x.py", function)
    assert "f has 61 lines" in finding
    assert findings(tidy, tmp_path, "src/veristream/x.py", "def f():\n" + "    x = 1\n" * 59) == []
    (finding,) = findings(tidy, tmp_path, "src/veristream/x.py", "x = 1\n" * 501)
    assert "501 lines" in finding
    assert findings(tidy, tmp_path, "tests/x.py", function) == []


def test_folders_with_too_many_modules(tidy: ModuleType, tmp_path: Path) -> None:
    names = [f"src/veristream/search/m{number}.py" for number in range(21)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(tidy.tidy(tmp_path, names)) == ["src/veristream/search: 21 modules, at most 20"]
    assert list(tidy.tidy(tmp_path, names[1:])) == []


def test_generated_files_and_registries(tidy: ModuleType, tmp_path: Path) -> None:
    (finding,) = findings(tidy, tmp_path, "src/__pycache__/x.pyc", "")
    assert "generated" in finding
    (finding,) = findings(tidy, tmp_path, "pip.conf", "index = https://" + "pypi" + ".org/simple\n")
    assert finding.startswith("pip.conf:1:")
