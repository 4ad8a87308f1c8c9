"""`veristream check MODEL [-p NAME]... [--order ORDER]`, run at once.

Declaring and parsing all verbs and options takes longer than checking a small model does. This spelling of
the most frequent command needs none of them; every other command line is left to `app`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_NAMES = ("-p", "--property")
_ORDERS = ("breadth", "depth")


def runs_directly(arguments: Sequence[str]) -> bool:
    """Runs the command and exits if it is a plain check; returns False if it is any other command."""
    plain = _read(arguments)
    if plain is None:
        return False
    from veristream.cli.checking import Asked, run_check
    from veristream.search.limits import Limits, Order

    model, properties, order = plain
    run_check(Asked(Path(model), properties, limits=Limits(reduction=True, order=Order(order))))
    return True


def _read(arguments: Sequence[str]) -> tuple[str, tuple[str, ...], str] | None:
    """Returns the model, the properties and the order of a plain check, or None if it is any other
    command."""
    if not arguments or arguments[0] != "check":
        return None
    models: list[str] = []
    properties: list[str] = []
    order = _ORDERS[0]
    rest = iter(arguments[1:])
    for one in rest:
        if one in _NAMES:
            name = next(rest, "")
            if not name or name.startswith("-"):
                return None
            properties.append(name)
        elif one == "--order":
            order = next(rest, "")
            if order not in _ORDERS:
                return None
        elif not one or one.startswith("-"):
            return None
        else:
            models.append(one)
    return (models[0], tuple(properties), order) if len(models) == 1 else None
