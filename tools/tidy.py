"""Checks house rules that no linter covers; prints violations and exits with 1 if there are any.

`make check` runs it. Every rule here is in CONTRIBUTING.md; an exception needs a reason beside it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
FOLDER_MODULES_MAX = 20

PRODUCT = ("src/", "testing/")
MAY_PRINT = ("src/veristream/cli/*", "tools/*", "bench/*")

# Functions that may be longer, as `path::name`, each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}

# Files that may be longer, each with its reason.
LONG_FILES: dict[str, str] = {}

GENERATED = (
    "*.pyc",
    "*.so",
    "*.nbc",
    "*.nbi",
    "*.trail",
    "*.egg-info/*",
    "*__pycache__/*",
    ".venv/*",
    "site/*",
    "build/*",
    "dist/*",
    "bench/results/*",
    "*pan.[bchmpt]",
)

# The machine's own settings say where packages come from, never this repository.
# Written in parts, so that this file does not name them either.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("maven", "apache", "org"),
        ("repo1", "maven", "org"),
        ("anaconda", "org"),
        ("deb", "debian", "org"),
    )
)


def main() -> int:
    """Checks the checkout that contains this file; returns the exit code."""
    root = Path(__file__).resolve().parent.parent
    findings = list(tidy(root, list_files(root)))
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} findings" if findings else "tidy: clean")
    return 1 if findings else 0


def list_files(root: Path) -> list[str]:
    """Returns the files that are or would be committed, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return sorted(name for name in set(listed.stdout.splitlines()) if (root / name).is_file())


def tidy(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Yields every violation in the named files, as `path:line: what`."""
    names = list(names)
    yield from _folders(names)
    for name in names:
        if _matches(name, GENERATED):
            yield f"{name}: generated file must not be committed"
            continue
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        yield from _registries(name, text)
        if name.endswith(".py"):
            yield from _python(name, text)


def _folders(names: Iterable[str]) -> Iterator[str]:
    """Folders of the product with too many modules: a prefix shared by several names is a folder's name."""
    modules = Counter(
        str(PurePosixPath(name).parent)
        for name in names
        if name.startswith(PRODUCT) and name.endswith(".py")
    )
    for folder, count in sorted(modules.items()):
        if count > FOLDER_MODULES_MAX:
            yield f"{folder}: {count} modules, at most {FOLDER_MODULES_MAX}"


def _registries(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for host in REGISTRY_HOSTS:
            if host in line:
                yield f"{name}:{number}: names the host of a package registry"


def _python(name: str, text: str) -> Iterator[str]:
    tree = ast.parse(text, filename=name)
    if not _matches(name, MAY_PRINT):
        yield from _prints(name, tree)
    if not name.startswith(PRODUCT):
        return
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX and name not in LONG_FILES:
        yield f"{name}:{FILE_LINES_MAX + 1}: {lines} lines, at most {FILE_LINES_MAX}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
            continue
        length = node.end_lineno - node.lineno + 1
        if length > FUNCTION_LINES_MAX and f"{name}::{node.name}" not in LONG_FUNCTIONS:
            yield f"{name}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}"


def _prints(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{name}:{node.lineno}: print outside the command line"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
