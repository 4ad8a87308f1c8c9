"""Errors as Spark shows them: it prints an exception's text alone, so that the hint must be in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from veristream.errors import EnvironmentFailure, ModelError


class KabisError(Exception):
    """What went wrong, and what to do about it."""


@contextmanager
def shown() -> Iterator[None]:
    """Raises our own errors as KabisError; a bug stays what it is."""
    try:
        yield
    except (ModelError, EnvironmentFailure) as error:
        raise KabisError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
