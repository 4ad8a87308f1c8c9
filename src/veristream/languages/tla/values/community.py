"""The most used modules of the community, as native operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import combinations
from typing import Final

from veristream.languages.tla.values import operations as op
from veristream.languages.tla.values.modules import STANDARD, Native, Of, bag, bag_count, sequence
from veristream.languages.tla.values.sets import pairs
from veristream.languages.tla.values.values import (
    EvaluationError,
    Mapped,
    Value,
    elements,
    explicit,
    function,
    in_order,
    make_set,
    show,
)


def _last(value: Value) -> Value:
    if not sequence(value):
        raise EvaluationError("Last of the empty sequence")
    return sequence(value)[-1]


def _front(value: Value) -> Value:
    if not sequence(value):
        raise EvaluationError("Front of the empty sequence")
    return sequence(value)[:-1]


def _fold_set(combine: Of, base: Value, of: Value) -> Value:
    return reduce(lambda so_far, one: combine(one, so_far), in_order(of), base)


def _fold_function(combine: Of, base: Value, of: Value) -> Value:
    known = pairs(of)
    return reduce(lambda so_far, key: combine(known[key], so_far), in_order(frozenset(known)), base)


def _fold_function_on(combine: Of, base: Value, of: Value, keys: Value) -> Value:
    known = pairs(of)
    return reduce(lambda so_far, key: combine(known[key], so_far), in_order(keys), base)


def _fold_left(combine: Of, base: Value, of: Value) -> Value:
    return reduce(combine, sequence(of), base)


def _fold_right(combine: Of, of: Value, base: Value) -> Value:
    return reduce(lambda so_far, one: combine(one, so_far), reversed(sequence(of)), base)


def _most(pick: Callable[[Iterable[int]], int]) -> Of:
    def compute(of: Value) -> Value:
        numbers = [op.number(one) for one in elements(of)]
        if not numbers:
            raise EvaluationError("the empty set has neither a least nor a greatest element")
        return pick(numbers)

    return compute


def _restrict(of: Value, domain: Value) -> Value:
    return function({one: op.apply(of, one) for one in elements(domain)})


def _range(of: Value) -> Value:
    return make_set(pairs(of).values())


def _set_to_sequence(of: Value) -> Value:
    return tuple(in_order(of))


def _is_injective(of: Value) -> Value:
    values = list(pairs(of).values())
    return len(set(values)) == len(values)


def _subsets_of_size(count: Value, of: Value) -> Value:
    return frozenset(map(frozenset, combinations(in_order(of), op.number(count))))


def _place(of: Value, at: Value, last: int) -> int:
    if not 1 <= op.number(at) <= last:
        raise EvaluationError(f"{at} is no place in {show(of)}")
    return int(at)


def _remove_at(of: Value, at: Value) -> Value:
    at = _place(of, at, len(sequence(of)))
    return sequence(of)[: at - 1] + sequence(of)[at:]


def _insert_at(of: Value, at: Value, one: Value) -> Value:
    at = _place(of, at, len(sequence(of)) + 1)
    return (*sequence(of)[: at - 1], one, *sequence(of)[at - 1 :])


def _replace_at(of: Value, at: Value, one: Value) -> Value:
    at = _place(of, at, len(sequence(of)))
    return (*sequence(of)[: at - 1], one, *sequence(of)[at:])


def _remove(of: Value, one: Value) -> Value:
    whole = sequence(of)
    return _remove_at(of, whole.index(one) + 1) if one in whole else whole


def _select_in(of: Value, test: Of) -> Value:
    return next((at for at, one in enumerate(sequence(of), 1) if op.boolean(test(one))), 0)


def _bag_with(of: Value, one: Value) -> Value:
    return bag({**pairs(of), one: bag_count(of, one) + 1})


def _bag_without(of: Value, one: Value) -> Value:
    return bag({**pairs(of), one: bag_count(of, one) - 1})


def _graph(of: Value) -> tuple[frozenset[Value], frozenset[Value]]:
    return explicit(op.apply(of, "node")), explicit(op.apply(of, "edge"))


def _is_undirected(of: Value, *, loops: bool) -> bool:
    if set(pairs(of)) != {"node", "edge"}:
        return False
    nodes, edges = _graph(of)
    sizes = (1, 2) if loops else (2,)
    return all(len(explicit(one)) in sizes and explicit(one) <= nodes for one in edges)


def _components(of: Value) -> frozenset[frozenset[Value]]:
    nodes, edges = _graph(of)
    found = {one: frozenset((one,)) for one in nodes}
    for edge in edges:
        joined = frozenset[Value]().union(*(found[one] for one in elements(edge)))
        found.update(dict.fromkeys(joined, joined))
    return frozenset(found.values())


def _are_connected(one: Value, other: Value, of: Value) -> bool:
    return any(one in each and other in each for each in _components(of))


def _integer(text: Value) -> Value:
    try:
        return int(text)
    except ValueError as error:
        raise EvaluationError(f"{show(text)} is no number") from error


_FINITE_EXTENDED: Final = {
    "FoldSet": Native(3, _fold_set, (0,)), "Max": Native(1, _most(max)), "Min": Native(1, _most(min)),
    "SumSet": Native(1, lambda of: sum(map(op.number, elements(of)))),
    "kSubset": Native(2, _subsets_of_size),
    "Quantify": Native(2, lambda of, test: sum(op.boolean(test(one)) for one in elements(of)), (1,)),
    "MapThenSumSet": Native(2, lambda each, of: sum(op.number(each(one)) for one in elements(of)), (0,)),
}  # fmt: skip
_SEQUENCES_EXTENDED: Final = {
    "ToSet": Native(1, lambda of: make_set(sequence(of))), "Range": Native(1, _range),
    "SetToSeq": Native(1, _set_to_sequence), "Last": Native(1, _last), "Front": Native(1, _front),
    "Reverse": Native(1, lambda of: sequence(of)[::-1]),
    "Contains": Native(2, lambda of, one: one in sequence(of)),
    "IsInjective": Native(1, _is_injective),
    "FoldLeft": Native(3, _fold_left, (0,)), "FoldRight": Native(3, _fold_right, (0,)),
    "FoldSeq": Native(3, _fold_function, (0,)),
    "RemoveAt": Native(2, _remove_at), "InsertAt": Native(3, _insert_at),
    "ReplaceAt": Native(3, _replace_at), "Remove": Native(2, _remove),
    "SelectInSeq": Native(2, _select_in, (1,)), "Cons": Native(2, lambda one, of: (one, *sequence(of))),
    "IsPrefix": Native(2, lambda a, b: sequence(b)[: len(sequence(a))] == sequence(a)),
}  # fmt: skip
_FUNCTIONS: Final = {
    "Restrict": Native(2, _restrict), "Range": Native(1, _range), "IsInjective": Native(1, _is_injective),
    "FoldFunction": Native(3, _fold_function, (0,)),
    "FoldFunctionOnSet": Native(4, _fold_function_on, (0,)),
}  # fmt: skip

_BAGS_EXTENDED: Final = {
    "BagAdd": Native(2, _bag_with), "BagRemove": Native(2, _bag_without),
    "BagRemoveAll": Native(
        2, lambda of, one: bag({each: count for each, count in pairs(of).items() if each != one})
    ),
    "SumBag": Native(1, lambda of: sum(op.number(one) * count for one, count in pairs(of).items())),
}  # fmt: skip
_UNDIRECTED: Final = {
    "IsUndirectedGraph": Native(1, lambda of: _is_undirected(of, loops=True)),
    "IsLoopFreeUndirectedGraph": Native(1, lambda of: _is_undirected(of, loops=False)),
    "ConnectedComponents": Native(1, _components), "AreConnectedIn": Native(3, _are_connected),
    "IsStronglyConnected": Native(1, lambda of: len(_components(of)) == 1),
}  # fmt: skip
_IO: Final = {
    "IOEnv": Native(0, lambda: Mapped(dict(os.environ))), "atoi": Native(1, _integer),
}  # fmt: skip

THEOREMS: Final = (
    "TLAPS", "NaturalsInduction", "WellFoundedInduction", "FiniteSetTheorems", "FunctionTheorems",
    "SequenceTheorems", "SequencesExtTheorems", "BagsTheorems",
)  # fmt: skip
"""Modules of theorems: whoever extends them needs nothing of them to check a model."""

MODULES: Final[Mapping[str, Mapping[str, Native]]] = {
    **STANDARD,
    "FiniteSetsExt": _FINITE_EXTENDED,
    "SequencesExt": _SEQUENCES_EXTENDED,
    "Functions": _FUNCTIONS,
    "BagsExt": _BAGS_EXTENDED,
    "UndirectedGraphs": _UNDIRECTED,
    "IOUtils": _IO,
    **{name: {} for name in THEOREMS},
}
"""The operators of each module that needs no file, by name."""
