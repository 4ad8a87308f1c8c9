"""The expected failures.

A `ModelError` is a mistake in the user's input: it says where, what and how to fix it (exit code 2). An
`EnvironmentFailure` comes from outside: a broker, a cluster, a missing tool (exit code 3). Any other
exception is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable

from veristream.source import NOWHERE, Span


class ModelError(Exception):
    """The model or the request is invalid; `hint` says what to write instead."""

    def __init__(self, message: str, span: Span = NOWHERE, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def render(self) -> str:
        """Formats the error as a compiler does: place, message, excerpt, hint."""
        lines = []
        if self.span.source.name == NOWHERE.source.name:  # by name: the error may come from another process
            lines.append(f"error: {self.message}")
        else:
            lines.append(f"{self.span.place}: error: {self.message}")
            lines.append(self.span.excerpt())
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class EnvironmentFailure(Exception):
    """Something outside the model failed; `hint` says what to install, start or free."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def render(self) -> str:
        """Formats the message and the hint, one line each."""
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns a hint with the known name closest to the given one, or the other hint if none is close."""
    from difflib import get_close_matches  # used only to explain an error

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else otherwise


def unknown(kind: str, name: str, known: Iterable[str], span: Span, hint: str = "") -> ModelError:
    """Returns the error for an unknown name, with a suggestion or else the hint."""
    return ModelError(f"unknown {kind} `{name}`", span, suggest(name, known, hint))
