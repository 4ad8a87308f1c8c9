"""Takes `hvar` variables out of the state if no step and no claim reads what an earlier step left there.

PAT leaves the values of an `hvar` out of the state. If a later step reads such a value, the result then
depends on the order of the search; such a variable stays part of our states. All others are *scratch*: what
they hold after a step does not matter. Assignments that nobody reads in the same program are dropped, the
others are undone at the end of the program.

This is the analysis of live variables. Whether a variable is read from one step to the next depends on
which others are, so the edges are walked until no more are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from veristream.ir import expr as ir
from veristream.ir.network import Edge, Network
from veristream.ir.walk import walk

Live = frozenset[str]


def drop_scratch(network: Network, hidden: Live, observed: Live) -> Network:
    """Returns the network in which hidden variables keep a value only if it is read later.

    `observed` are those that claims read.
    """
    if not hidden:
        return network
    kept = hidden & observed
    while True:
        read = kept.union(
            *(_before(edge, kept, hidden) for component in network.components for edge in component.edges)
        )
        if read == kept:
            break
        kept = read
    scratch = hidden - kept
    if not scratch:
        return network
    initial = {one.name: one for one in network.variables if one.name in scratch}
    resets = {name: _initial(one.name, one.shape, one.initial) for name, one in initial.items()}
    components = tuple(
        replace(component, edges=tuple(_cleared(edge, kept, hidden, resets) for edge in component.edges))
        for component in network.components
    )
    return replace(network, components=components)


def _initial(name: str, shape: tuple[int, ...], values: tuple[int, ...]) -> ir.Block:
    """Returns assignments of the initial values."""
    statements: list[ir.Statement] = []
    for position, value in enumerate(values):
        at: tuple[ir.Expr, ...] = ()
        for size in reversed(shape):
            at, position = (ir.Const(position % size), *at), position // size
        statements.append(ir.Assign(ir.Load(name, at), ir.Const(value)))
    return tuple(statements)


def _reads(node: object, hidden: Live) -> Live:
    return frozenset(
        part.variable for part in walk(node) if isinstance(part, ir.Load) and part.variable in hidden
    )


def _before(edge: Edge, kept: Live, hidden: Live) -> Live:
    """Returns the hidden variables of which the edge reads the value before its step."""
    _, live = _block(edge.update, kept, hidden)
    return live | _reads((edge.guard, edge.sync, edge.label), hidden)


def _cleared(edge: Edge, kept: Live, hidden: Live, resets: dict[str, ir.Block]) -> Edge:
    update, _ = _block(edge.update, kept, hidden)
    written = dict.fromkeys(
        node.target.variable
        for node in walk(update)
        if isinstance(node, ir.Assign)
        and isinstance(node.target, ir.Load)
        and node.target.variable in resets
    )
    return replace(edge, update=(*update, *(statement for name in written for statement in resets[name])))


def _block(block: Iterable[ir.Statement], live: Live, hidden: Live) -> tuple[ir.Block, Live]:
    """Returns the block without useless assignments, and what is live before it; `live` is so after it."""
    kept: list[ir.Statement] = []
    for statement in reversed(tuple(block)):
        found, live = _statement(statement, live, hidden)
        kept += found
    return tuple(reversed(kept)), live


def _statement(statement: ir.Statement, live: Live, hidden: Live) -> tuple[ir.Block, Live]:
    match statement:
        case ir.Assign(target=ir.Load(variable=name, indices=indices), value=value) if name in hidden:
            if name not in live:
                return (), live
            after = live if indices else live - {name}  # the other elements of an array stay
            return (statement,), after | _reads((indices, value), hidden)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            first, one = _block(then, live, hidden)
            second, other = _block(otherwise, live, hidden)
            if not first and not second:
                return (), live
            changed = replace(statement, then=first, otherwise=second)
            return (changed,), one | other | _reads(condition, hidden)
        case ir.While(condition=condition, body=body):
            live |= _reads(condition, hidden)
            while True:  # once more for each variable that an iteration passes on to the next
                kept, before = _block(body, live, hidden)
                if before <= live:
                    return (replace(statement, body=kept),), live
                live |= before
        case _:
            return (statement,), live | _reads(statement, hidden)
