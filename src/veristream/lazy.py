"""Public names that are imported on first use, so that importing a package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def load_on_use(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Returns the package's `__getattr__`; `homes` maps a module to the names that it defines."""
    found = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(found[name]), name)

    return get
