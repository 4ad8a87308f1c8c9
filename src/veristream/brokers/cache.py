"""The cache of downloaded programs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str) -> Path:
    """Returns a folder in $VERISTREAM_CACHE, or else in the user's cache directory."""
    own = os.environ.get("VERISTREAM_CACHE")
    if own:
        return Path(own) / name
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "veristream" / name
