"""The verbs of the command, each imported when it is called or when help lists them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

VERBS = {
    "check": "check",
    "simulate": "simulate",
    "models": "models",
    "reproduce": "reproduce",
    "export": "export",
    "properties": "history.properties",
    "record": "history.record",
    "import": "history.importing",
    "audit": "history.audit",
    "replay": "history.replay",
    "tour": "tour",
    "kabis": "kabis",
    "broker": "broker",
}
"""In the order of help, with the module in `cli` that has a function of the verb's name, or a Typer
application `app`."""


class Verbs(TyperGroup):
    """A group of commands that are imported on use."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(VERBS)


class _Commands(MutableMapping[str, Any]):
    """Commands by name, in a fixed order; one is loaded when it is looked up."""

    def __init__(self, names: Iterable[str]) -> None:
        self._loaded: dict[str, Any] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Any:
        if self._loaded[name] is None:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded


def _load(name: str) -> Any:
    module = import_module(f"veristream.cli.{VERBS[name]}")
    verb: typer.Typer | Callable[..., None] = getattr(module, "app", None) or getattr(module, name)
    if not isinstance(verb, typer.Typer):
        verb = _alone(verb)
    command = get_command(verb)
    command.name = name
    return command


def _alone(verb: Callable[..., None]) -> typer.Typer:
    """Returns an application with one command."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(verb)
    return app
