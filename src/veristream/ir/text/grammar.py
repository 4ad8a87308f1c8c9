"""Parsers from grammar files: tables are computed once and kept in the cache.

Lark needs much longer to compute the tables of a grammar than to parse a model with them.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from io import BytesIO

import lark
from lark import Lark

from veristream.cache import cache_directory, read_entry, write_entry


def load_grammar(package: str, name: str, **options: object) -> Lark:
    """Returns the parser of a grammar file in the package, from the cache if possible."""
    grammar = files(package).joinpath(name).read_text(encoding="utf-8")
    wanted = {"parser": "lalr", "propagate_positions": True, "maybe_placeholders": True, **options}
    key = sha256("\0".join((lark.__version__, repr(sorted(wanted.items())), grammar)).encode())
    path = cache_directory("grammars") / f"{key.hexdigest()[:40]}.tables"
    tables = read_entry(path)
    if tables is not None:
        return Lark.load(BytesIO(tables))
    parser = Lark(grammar, **wanted)
    made = BytesIO()
    parser.save(made)
    write_entry(path, made.getvalue())
    return parser
