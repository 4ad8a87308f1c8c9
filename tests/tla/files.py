"""Writes specifications into folders."""

from __future__ import annotations

from pathlib import Path

from tests.tla.specifications import Known


def module(name: str, body: str) -> str:
    return f"---- MODULE {name} ----\n{body}\n====\n"


def write(folder: Path, known: Known) -> Path:
    """Writes a specification with its configuration and modules; returns its file."""
    for name, body in ((known.name, known.body), *known.modules):
        (folder / f"{name}.tla").write_text(module(name, body))
    (folder / f"{known.name}.cfg").write_text(known.config)
    return folder / f"{known.name}.tla"
