"""Errors as a user reads them, also when another process raised them."""

from __future__ import annotations

import pickle

from veristream.errors import ModelError, suggest, unknown
from veristream.source import NOWHERE, Source, Span


def test_an_error_without_a_place_names_none_wherever_it_comes_from() -> None:
    error = ModelError("there is no such topic", hint="create it")
    said = "error: there is no such topic\nhint: create it"
    assert error.render() == said
    assert pickle.loads(pickle.dumps(error)).render() == said


def test_an_error_in_an_empty_file_names_the_file() -> None:
    assert ModelError("nothing is here", Span(Source("m.net", ""), 0, 0)).render().startswith("m.net:1:1: ")


def test_a_suggestion_is_the_closest_known_name() -> None:
    assert suggest("sean", ["seen", "queue"], "declare it") == "did you mean `seen`?"
    assert suggest("sean", ["queue"], "declare it") == "declare it"
    assert suggest("sean", []) == ""


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    error = unknown("channel", "rnig", ["ring"], NOWHERE, "declare it")
    assert (error.message, error.hint) == ("unknown channel `rnig`", "did you mean `ring`?")
