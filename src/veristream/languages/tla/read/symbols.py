"""The names of operators that are symbols: each is one name, however it is spelled."""

from __future__ import annotations

from typing import Final

SYMBOLS: Final = {
    "land": "/\\", "lor": "\\/", "implies": "=>", "iff": "<=>", "equiv": "<=>", "lnot": "~",
    "eq": "=", "neq": "#", "lt": "<", "gt": ">", "leq": "=<", "geq": ">=",
    "plus": "+", "minus": "-", "mul": "*", "slash": "/", "div": "\\div", "mod": "%", "pow": "^",
    "negative": "-.", "dots_2": "..", "dots_3": "...",
    "in": "\\in", "notin": "\\notin", "cup": "\\cup", "cap": "\\cap", "setminus": "\\",
    "subseteq": "\\subseteq", "subset": "\\subset", "supseteq": "\\supseteq", "supset": "\\supset",
    "circ": "\\o", "map_to": ":>", "map_from": "<:", "compose": "@@",
    "always": "[]", "eventually": "<>", "leads_to": "~>", "plus_arrow": "-+->", "cdot": "\\cdot",
    "powerset": "SUBSET", "union": "UNION", "domain": "DOMAIN", "unchanged": "UNCHANGED",
    "enabled": "ENABLED", "prime": "'",
    "oplus": "(+)", "ominus": "(-)", "times": "\\X",
}  # fmt: skip
"""By the name that the grammar has for a symbol; symbols that are not listed have no built-in meaning."""


def symbol_name(type_: str) -> str:
    """The name of the operator; it is no identifier."""
    return SYMBOLS.get(type_, f"\\{type_}")
