"""The process of a party gives its role the options that are the role's own."""

from __future__ import annotations

import pytest

from veristream.kabis.cluster import party


def test_the_options_of_a_role_are_passed_on_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []

    def run(arguments: list[str]) -> int:
        given.append(arguments)
        return 0

    monkeypatch.setattr(party.stores, "main", run)
    own = ["--log", "kafka=127.0.0.1:9092", "--set", "a=b", "--n", "1"]
    assert party.main(["storage", *own]) == 0
    assert given == [own]
