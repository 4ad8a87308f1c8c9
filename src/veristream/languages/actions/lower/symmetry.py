"""Symmetric roles: the variables that their instances index or occur in as values."""

from __future__ import annotations

from collections.abc import Iterator

from veristream.ir.network import Sorted, SymmetricValues, SymmetricVariable, Symmetry
from veristream.languages.actions.read.module import Module
from veristream.languages.actions.read.types import MapOf, Record, Scalar, SeqOf, SetOf, Shape

Part = tuple[str, tuple[Scalar | None, ...], Scalar | SetOf | None]
"""A leaf: the suffix of its name, the key of each dimension, the type of its values."""


def symmetries_of(module: Module) -> tuple[Symmetry, ...]:
    """Returns one symmetry for each symmetric role with more than one instance."""
    return tuple(
        Symmetry(
            role.name, role.count, tuple(_variables(module, role.name)), span=module.text.span(role.node)
        )
        for role in module.roles.values()
        if role.symmetric and role.count > 1
    )


def bags_of(module: Module) -> tuple[Sorted, ...]:
    """Returns the bags of the model; their items must be sorted again after a permutation."""
    return tuple(
        Sorted(f"{name}.len", tuple(f"{name}.item{suffix}" for suffix, _, _ in _parts(shape.item)))
        for name, shape in _bags(module)
    )


def _declared(module: Module) -> Iterator[tuple[str, tuple[Scalar | None, ...], Shape]]:
    for state in module.state.values():
        yield state.name, (), state.shape
    for role in module.roles.values():
        for state in role.state:
            yield f"{role.name}.{state.name}", (role.scalar,), state.shape


def _variables(module: Module, role: str) -> Iterator[SymmetricVariable]:
    for name, outer, shape in _declared(module):
        for suffix, inner, values in _parts(shape):
            keys = outer + inner
            dimensions = tuple(d for d, key in enumerate(keys) if key is not None and _is_of(key, role))
            kind, low = _values(values, role)
            if dimensions or kind is not SymmetricValues.OTHER:
                yield SymmetricVariable(name + suffix, dimensions, kind, low)


def _is_of(scalar: Scalar, role: str) -> bool:
    return scalar.kind == "role" and scalar.name == role and not scalar.maybe


def _values(values: Scalar | SetOf | None, role: str) -> tuple[SymmetricValues, int]:
    match values:
        case Scalar(kind="role", name=name) if name == role:
            return SymmetricValues.ID, 0
        case SetOf(item=Scalar(kind="role", name=name) as item) if name == role:
            return SymmetricValues.SET, -item.low
        case _:
            return SymmetricValues.OTHER, 0


def _parts(shape: Shape) -> Iterator[Part]:
    match shape:
        case Scalar() | SetOf():
            yield "", (), shape
        case Record(fields=fields):
            for name, part in fields:
                for suffix, keys, values in _parts(part):
                    yield f".{name}{suffix}", keys, values
        case MapOf(key=key, value=value):
            for suffix, keys, values in _parts(value):
                yield suffix, (key, *keys), values
        case SeqOf(item=item):
            yield ".len", (), None
            for suffix, keys, values in _parts(item):
                yield f".item{suffix}", (None, *keys), values


def _bags(module: Module) -> Iterator[tuple[str, SeqOf]]:
    for name, _, shape in _declared(module):
        yield from _bags_in(name, shape)


def _bags_in(name: str, shape: Shape) -> Iterator[tuple[str, SeqOf]]:
    match shape:
        case SeqOf(is_bag=True):
            yield name, shape
        case Record(fields=fields):
            for field, part in fields:
                yield from _bags_in(f"{name}.{field}", part)
        case MapOf(value=value):
            yield from _bags_in(name, value)
