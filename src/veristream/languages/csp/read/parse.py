"""Reads a CSP# file and the files it includes into resolved syntax, which `lower.network` lowers."""

from __future__ import annotations

from collections.abc import Mapping

from veristream.errors import ModelError
from veristream.languages.csp.read.include import gather
from veristream.languages.csp.read.resolve import resolve
from veristream.languages.csp.syntax import Specification
from veristream.source import Source, Span


def read_specification(source: Source, constants: Mapping[str, int]) -> Specification:
    """Returns the specification of a file; `constants` overrides values of its `#define` constants.

    Raises ModelError, with a span and a hint, if the file is not a valid model.
    """
    try:
        return resolve(source, gather(source), constants)
    except RecursionError:
        hint = "move parts of it into separate processes or definitions"
        raise ModelError("the model is nested too deeply", Span(source, 0, 0), hint) from None
