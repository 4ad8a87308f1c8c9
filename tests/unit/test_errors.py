"""Errors as a user reads them, also when another process raised them."""

from __future__ import annotations

import pickle

from veristream.errors import ModelError
from veristream.source import Source, Span


def test_an_error_without_a_place_names_none_wherever_it_comes_from() -> None:
    error = ModelError("there is no such topic", hint="create it")
    said = "error: there is no such topic\nhint: create it"
    assert error.render() == said
    assert pickle.loads(pickle.dumps(error)).render() == said


def test_an_error_in_an_empty_file_names_the_file() -> None:
    assert ModelError("nothing is here", Span(Source("m.net", ""), 0, 0)).render().startswith("m.net:1:1: ")
