"""The spelling of names and operators in the text form, shared by its printer and reader."""

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
"""The precedence of operators; `? :` is `LOOSEST`, and what never needs parentheses is `TIGHTEST`."""
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
"""Keywords that must be printed in backquotes as names; the grammar accepts most others as names."""
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
    """Returns the name as a word, or in backquotes if it is not one."""
    return name if re.fullmatch(_WORD, name) and name not in RESERVED else quote(name)


def spell_function(name: str) -> str:
    """Returns a function's name, in backquotes if it equals a built-in one."""
    return quote(name) if name in BUILT_IN else spell_name(name)


def spell_label(name: str) -> str:
    """Returns a label's name, in backquotes if it could be read as the next clause."""
    return quote(name) if name in _CLAUSES else spell_name(name)


def spell_occurrence(name: str) -> str:
    """Returns an action's name in a formula, in backquotes if it equals the operator `X`."""
    return quote(name) if name == "X" else spell_name(name)


def spell_component(name: str) -> str:
    """Returns the name as `P` or `P(0, 1)`, or in backquotes if it has another form."""
    return name if _fits(_COMPONENT, name) else quote(name)


def spell_path(name: str) -> str:
    """Returns a variable's name as `x`, `x.y` or `P(0).x`, or in backquotes if it has another form."""
    return name if _fits(_PATH, name) else quote(name)


def _fits(form: re.Pattern[str], name: str) -> bool:
    words = re.findall(_WORD, name)
    return form.fullmatch(name) is not None and not any(word in RESERVED for word in words)


def quote(name: str) -> str:
    """Returns the name in backquotes; any name can be quoted."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n").replace("\r", "\\r")
    return f"`{escaped}`"


def unquote(written: str) -> str:
    """Inverts `quote`."""
    breaks = {"n": "\n", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: breaks.get(found[1], found[1]), written[1:-1])
