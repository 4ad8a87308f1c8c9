"""From the text of a CSP# file, with the files it includes, to its resolved syntax."""

from __future__ import annotations

from collections.abc import Mapping

from veristream.errors import ModelError
from veristream.languages.csp.read.include import gather
from veristream.languages.csp.read.resolve import resolve
from veristream.languages.csp.syntax import Specification
from veristream.source import Source, Span


def read_specification(source: Source, constants: Mapping[str, int]) -> Specification:
    """The specification of a file; `constants` replaces values of its `#define` constants.

    Raises ModelError, with the place and a hint, where the text is wrong.
    """
    try:
        return resolve(source, gather(source), constants)
    except RecursionError:
        hint = "define parts of it as processes or conditions of their own"
        raise ModelError("the model is nested too deeply", Span(source, 0, 0), hint) from None
