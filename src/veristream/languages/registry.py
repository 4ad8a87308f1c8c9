"""The languages of models: which suffix a file has, how a model begins, and which function reads it.

A language is a folder beside this file with `read` (text to syntax) and `lower` (syntax to Networks), and
an entry here. Its modules are imported when a file with its suffix is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.source import Source, Span

Constants = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Language:
    """A language of models; `read` returns the verified models of a text, or raises ModelError.

    If it is given names of properties, it may leave out models and properties that are not named. `ask`
    reads a text with the properties of another one; it is None if the language does not separate them.
    `stacked` reads a text with a limit on the height of stacks; it is None if models have none.
    """

    beginning: str
    read: Callable[[Source, Constants, Sequence[str]], tuple[Network, ...]]
    ask: Callable[[Source, Constants, Source], tuple[Network, ...]] | None = None
    stacked: Callable[[Source, Constants, Sequence[str], int], tuple[Network, ...]] | None = None


def find_language(path: Path) -> Language:
    """Returns the language of a file; raises ModelError for a suffix that no language has."""
    if path.suffix not in LANGUAGES:
        suffix = f"ends in {path.suffix}" if path.suffix else "has no suffix"
        raise ModelError(
            f"{path} {suffix}, which is not a known model language",
            hint=f"models end in {', '.join(LANGUAGES)}",
        )
    return LANGUAGES[path.suffix]


def _read_csp(source: Source, constants: Constants, names: Sequence[str]) -> tuple[Network, ...]:
    from veristream.languages.csp.lower.network import read_models

    return read_models(source, constants, names)


def _stack_csp(
    source: Source, constants: Constants, names: Sequence[str], stack_max: int
) -> tuple[Network, ...]:
    from veristream.languages.csp.lower.network import read_models

    return read_models(source, constants, names, stack_max)


def _read_net(source: Source, constants: Constants, names: Sequence[str]) -> tuple[Network, ...]:
    from veristream.ir.text.read import read_network

    return (read_network(source, constants),)


def _read_actions(source: Source, constants: Constants, names: Sequence[str]) -> tuple[Network, ...]:
    from veristream.languages.actions.lower.network import read_model

    return (read_model(source, constants),)


def _read_timed(source: Source, constants: Constants, names: Sequence[str]) -> tuple[Network, ...]:
    from veristream.languages.timed.lower.network import read_models

    return read_models(source, constants)


def _ask_timed(source: Source, constants: Constants, queries: Source) -> tuple[Network, ...]:
    from veristream.languages.timed.lower.network import read_models

    return read_models(source, constants, queries)


_XTA = Language("a model ends with the system line: `system Process;`", _read_timed, _ask_timed)


def _read_tla(source: Source, constants: Constants, names: Sequence[str]) -> tuple[Network, ...]:
    raise ModelError(
        "a specification in TLA+ can only be checked so far",
        Span(source, 0, 0),
        f"use `veristream check {source.name}`",
    )


_CSP = Language("a model defines processes: `System() = a -> System();`", _read_csp, stacked=_stack_csp)
LANGUAGES: Mapping[str, Language] = {
    ".csp": _CSP,
    ".net": Language("a model begins with `network NAME`", _read_net),
    ".py": Language("a model begins with `from veristream.actions import ...`", _read_actions),
    ".ta": _XTA,
    ".tla": Language("a specification begins with `---- MODULE Name ----`", _read_tla),
    ".xml": Language("an UPPAAL model is an XML document `<nta>...</nta>`", _read_timed, _ask_timed),
    ".xta": _XTA,
}
"""The languages by the suffix of their files."""
