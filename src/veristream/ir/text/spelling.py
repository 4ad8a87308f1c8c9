"""How the text form of a Network spells names and operators: what its printer and reader share."""

from __future__ import annotations

import re

LEVELS = {
    "implies": 1,
    "or": 2,
    "and": 3,
    "|": 5,
    "^": 6,
    "&": 7,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 8),
    **dict.fromkeys(("<<", ">>"), 9),
    **dict.fromkeys(("+", "-"), 10),
    **dict.fromkeys(("*", "div", "rem", "mod"), 11),
}
"""How tightly an operator binds; `? :` is `LOOSEST`, what never needs parentheses `TIGHTEST`."""
PREFIX_LEVELS = {"not": 4, "-": 12, "~": 12}
LOOSEST, TIGHTEST = 0, 13
RIGHTWARD = frozenset({"implies"})
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})

TEMPORAL_LEVELS = {"<->": 1, "->": 2, "||": 3, "&&": 4, "U": 5, "R": 5}
TEMPORAL_PREFIX_LEVELS = dict.fromkeys(("!", "X", "[]", "<>"), 6)
TEMPORAL_RIGHTWARD = frozenset({"->", "U", "R"})

FOLDS = {"all": "forall", "any": "exists", "sum": "sum"}
BUILT_IN = frozenset({"min", "max", "len", "empty", "full", "peek", "done", "idle", "next"})
RESERVED = frozenset(
    {
        *("network", "const", "enum", "struct", "var", "function", "channel", "component", "location"),
        *("edge", "property", "do", "when", "let", "if", "else", "while", "for", "in", "check", "reset"),
        *("return", "tau", "always", "transition", "reachable", "ltl", "leadsto", "deadlockfree"),
        *("divergencefree", "nonterminating", "forall", "exists", "sum", "not", "implies", "or", "and"),
        *("div", "rem", "mod", "true", "false", "bool", "int", "deterministic", "refines", "clock"),
        *("inevitable", "potentially", "deadlock"),
    }
)
"""Words that are printed in backquotes wherever they are names; the grammar lets most others be."""
_CLAUSES = frozenset(
    {
        "select",
        "action",
        "clock",
        "send",
        "receive",
        "meet",
        "fork",
        "join",
        "kill",
        "fair",
        "late",
        "actors",
    }
)

_WORD = r"[^\W\d]\w*"
_INSTANCE = rf"{_WORD}\((?:0|-?[1-9][0-9]*)(?:, (?:0|-?[1-9][0-9]*))*\)"
_COMPONENT = re.compile(rf"{_WORD}|{_INSTANCE}")
_PATH = re.compile(rf"(?:{_WORD}|{_INSTANCE}(?=\.))(?:\.{_WORD})*")


def spell_name(name: str) -> str:
    """The name as a word, or in backquotes where it is not one."""
    return name if re.fullmatch(_WORD, name) and name not in RESERVED else quote(name)


def spell_function(name: str) -> str:
    """A function's name, told apart from what is built in."""
    return quote(name) if name in BUILT_IN else spell_name(name)


def spell_label(name: str) -> str:
    """A label's name, told apart from the clause that may follow in its stead."""
    return quote(name) if name in _CLAUSES else spell_name(name)


def spell_occurrence(name: str) -> str:
    """An action's name in a formula, told apart from the operator `X`."""
    return quote(name) if name == "X" else spell_name(name)


def spell_component(name: str) -> str:
    """The name as `P` or `P(0, 1)`, or in backquotes where it has another form."""
    return name if _fits(_COMPONENT, name) else quote(name)


def spell_path(name: str) -> str:
    """A variable's name as `x`, `x.y` or `P(0).x`, or in backquotes where it has another form."""
    return name if _fits(_PATH, name) else quote(name)


def _fits(form: re.Pattern[str], name: str) -> bool:
    words = re.findall(_WORD, name)
    return form.fullmatch(name) is not None and not any(word in RESERVED for word in words)


def quote(name: str) -> str:
    """The name in backquotes, so that any name can be read again."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n").replace("\r", "\\r")
    return f"`{escaped}`"


def unquote(written: str) -> str:
    """The name that `quote` was given."""
    breaks = {"n": "\n", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: breaks.get(found[1], found[1]), written[1:-1])
