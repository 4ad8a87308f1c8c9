"""`veristream check MODEL` with the options `-p`, `-D`, `--order` and `--json`, run at once.

Declaring and parsing all verbs and options takes longer than checking a small model does. These spellings
of the most frequent command need none of them; every other command line is left to `app`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_OPTIONS = {"-p": "-p", "--property": "-p", "-D": "-D", "--define": "-D", "--order": "--order"}
_ORDERS = ("breadth", "depth")


def runs_directly(arguments: Sequence[str]) -> bool:
    """Runs the command and exits if it is a plain check; returns False if it is any other command."""
    plain = _read(arguments)
    if plain is None:
        return False
    from veristream.cli.checking import Asked, run_check
    from veristream.search.limits import Limits, Order

    (model,), as_json = plain["model"], bool(plain["--json"])
    limits = Limits(reduction=True, order=Order([_ORDERS[0], *plain["--order"]][-1]))
    run_check(Asked(Path(model), tuple(plain["-p"]), tuple(plain["-D"]), limits=limits, as_json=as_json))
    return True


def _read(arguments: Sequence[str]) -> dict[str, list[str]] | None:
    """Returns the model and the options of a plain check, or None if it is any other command."""
    if not arguments or arguments[0] != "check":
        return None
    plain: dict[str, list[str]] = {"model": [], "--json": [], "-p": [], "-D": [], "--order": []}
    rest = iter(arguments[1:])
    for one in rest:
        if one == "--json":
            plain["--json"].append(one)
            continue
        option = _OPTIONS.get(one)
        value = one if option is None else next(rest, "")
        if not value or value.startswith("-"):
            return None
        plain[option or "model"].append(value)
    known = all(order in _ORDERS for order in plain["--order"])
    return plain if len(plain["model"]) == 1 and known else None
