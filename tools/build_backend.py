"""Builds the package with hatchling, and puts the compiled search loops into wheels.

Only a wheel needs Numba to be built: an editable installation, which `make` makes, compiles loops when they
are first called.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Returns what hatchling needs, what compiling the loops needs, and what modules with loops import."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    among = [*project["dependencies"], *extras["spark"]]
    imported = [one for one in among if one.startswith(("numpy", "pyarrow"))]
    return [*hatchling.get_requires_for_build_wheel(config_settings), *imported, *extras["loops"]]
