"""What can go wrong through no fault of ours.

`ModelError` is the user's: it says where, what and what to do (exit 2). `EnvironmentFailure` is the
machine's: a broker, a cluster, a missing tool (exit 3). Anything else that is raised is a bug.
"""

from __future__ import annotations

from veristream.source import NOWHERE, Span


class ModelError(Exception):
    """The model, or what was asked of it, is wrong; `hint` says what to write instead."""

    def __init__(self, message: str, span: Span = NOWHERE, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def render(self) -> str:
        """The message as a compiler would print it: place, excerpt, hint."""
        lines = []
        if self.span.source.name == NOWHERE.source.name:  # also when it comes from another process
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
        """The message with its hint, one line each."""
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")
