"""All entries, how to find them, and what the known models say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from veristream.catalogue import designs, groups, messages, transactions
from veristream.catalogue.entry import Entry, Ruling
from veristream.expected import Expectation, KnownModel, find_known
from veristream.ir.chosen import find_named
from veristream.known import find_shipped
from veristream.source import NOWHERE

ENTRIES = (
    messages.DELIVERED,
    messages.PROCESSED,
    messages.ONCE,
    messages.ORDER,
    messages.ONE_OFFSET,
    messages.NOTHING_NEW,
    messages.READERS,
    transactions.ABORTED,
    transactions.WHOLE,
    transactions.FENCED,
    transactions.HANGING,
    groups.EXCLUSIVE,
    groups.FORWARD,
    groups.BOUNDED,
    groups.FINAL,
    designs.HANDLED,
    designs.PROGRESS,
    designs.AGREED,
    designs.TICKETS,
    designs.HEARTBEATS,
)
"""Those of histories in the order of `Property`, then those of models alone."""


def find_entries(names: Sequence[str] = ()) -> tuple[Entry, ...]:
    """Returns the named entries, or all; a word that only one name has is enough. Raises ModelError."""
    known = {entry.name: entry for entry in ENTRIES}
    chosen = find_named(names, known, NOWHERE, "the catalogue") if names else list(known)
    return tuple(known[name] for name in chosen)


def rule(entries: Sequence[Entry], models: Path | None = None) -> dict[str, tuple[Ruling, ...]]:
    """Returns what the known models say of each entry, by its name, in the order of its evidence."""
    known = {model.name: model for model in find_known(find_shipped() if models is None else models)}
    return {entry.name: tuple(_rule(entry, known)) for entry in entries}


def _rule(entry: Entry, known: Mapping[str, KnownModel]) -> Iterator[Ruling]:
    for evidence in entry.evidence:
        for model in (known[name] for name in evidence.models):
            expected = _expectation(model, evidence.property)
            proves = (expected.verdict == "holds") != evidence.bad
            yield Ruling(
                evidence.system, model, evidence.property, expected.verdict, proves, expected.source
            )


def _expectation(model: KnownModel, name: str) -> Expectation:
    found = [one for one in model.expectations if one.property == name]
    assert found, f"{model.name} expects nothing of {name}"
    return found[0]
