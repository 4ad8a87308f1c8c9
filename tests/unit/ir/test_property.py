"""The keywords of claims."""

from __future__ import annotations

import pytest

from veristream.ir.property import kind_of
from veristream.ir.text.read import read_network
from veristream.source import Source


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("deadlockfree", "deadlockfree"),
        ("divergencefree", "divergencefree"),
        ("nonterminating", "nonterminating"),
        ("deterministic", "deterministic"),
        ("refines { network s }", "refines"),
        ("refines<F> { network s }", "refines<F>"),
        ("refines<FD> { network s }", "refines<FD>"),
        ("always 1", "always"),
        ("reachable 1", "reachable"),
        ("reachable 1 maximise 2", "reachable"),
        ("transition 1", "transition"),
        ("ltl [] {1}", "ltl"),
        ("1 leadsto 1", "leadsto"),
    ],
)
def test_the_kind_is_the_keyword_of_the_text_form(text: str, kind: str) -> None:
    (found,) = read_network(Source("m.net", f"network m property p: {text}")).properties
    assert kind_of(found.claim) == kind


@pytest.mark.parametrize("kind", ["inevitable", "potentially"])
def test_the_kind_of_a_timed_claim(kind: str) -> None:
    (found,) = read_network(Source("m.net", f"network m timed property p: {kind} 1")).properties
    assert kind_of(found.claim) == kind
