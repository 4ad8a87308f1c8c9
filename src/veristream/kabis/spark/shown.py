"""Errors as Spark shows them: it prints only an exception's text, so the text must contain the hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from veristream.errors import EnvironmentFailure, ModelError


class KabisError(Exception):
    """An error message with its hint."""


@contextmanager
def shown() -> Iterator[None]:
    """Converts user errors and failures to KabisError; bugs pass unchanged."""
    try:
        yield
    except (ModelError, EnvironmentFailure) as error:
        raise KabisError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
