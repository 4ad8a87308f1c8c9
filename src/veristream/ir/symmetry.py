"""Symmetry: states that are equal up to a permutation of instances.

The instances of a symmetry form a scalarset (Ip and Dill, "Better verification through symmetry", 1996):
a permutation of them, applied to a state, yields a state with the same future up to the permutation. A
search then needs only one state of each *orbit*: the canonical one, which is the least in a lexicographic
order that the kernel chooses. This module permutes states in the simplest way. It is the oracle for the
kernel's native version, and converts canonical states back to a real run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from math import prod

from veristream.errors import ModelError
from veristream.ir.network import Network, Sorted, SymmetricValues, SymmetricVariable, all_variables
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State

Permutation = Mapping[str, tuple[int, ...]]
"""For each symmetry, the new number of each instance."""

Values = dict[str, list[int]]


def list_permutations(network: Network) -> list[Permutation]:
    """Lists the combined permutations of all symmetries, the identity first."""
    names = [symmetry.name for symmetry in network.symmetries]
    choices = [list(permutations(range(symmetry.size))) for symmetry in network.symmetries]
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*choices)]


def permute(network: Network, state: State, permutation: Permutation) -> State:
    """Renames the instances in the state."""
    shapes = {variable.name: variable.shape for variable in all_variables(network)}
    values = _unpack(network, state)
    for symmetry in network.symmetries:
        for variable in symmetry.variables:
            shape = shapes[variable.variable]
            values[variable.variable] = _moved(
                values[variable.variable], shape, variable, permutation[symmetry.name]
            )
    for bag in network.bags:
        _sort(bag, values, shapes)
    flat = tuple(value for variable in all_variables(network) for value in values[variable.name])
    return State(flat, state.queues, state.locations)


def orbit(network: Network, state: State) -> set[State]:
    """Returns all states that equal this one up to a permutation of instances."""
    return {permute(network, state, permutation) for permutation in list_permutations(network)}


def _unpack(network: Network, state: State) -> Values:
    values: Values = {}
    position = 0
    for variable in all_variables(network):
        size = prod(variable.shape)
        values[variable.name] = list(state.values[position : position + size])
        position += size
    return values


def _moved(
    old: list[int], shape: tuple[int, ...], variable: SymmetricVariable, moves: tuple[int, ...]
) -> list[int]:
    new = list(old)
    for position, indices in enumerate(product(*(range(size) for size in shape))):
        target = [moves[i] if d in variable.dimensions else i for d, i in enumerate(indices)]
        new[_flat(shape, target)] = _renamed(old[position], variable, moves)
    return new


def _flat(shape: tuple[int, ...], indices: list[int]) -> int:
    flat = 0
    for size, index in zip(shape, indices, strict=True):
        flat = flat * size + index
    return flat


def _renamed(value: int, variable: SymmetricVariable, moves: tuple[int, ...]) -> int:
    match variable.values:
        case SymmetricValues.OTHER:
            return value
        case SymmetricValues.ID:
            number = value - variable.low
            return value if number < 0 else moves[number] + variable.low
        case SymmetricValues.SET:
            low, result = variable.low, value & ((1 << variable.low) - 1)
            for bit, target in enumerate(moves):
                result |= (value >> (bit + low) & 1) << (target + low)
            return result


def _sort(bag: Sorted, values: Values, shapes: Mapping[str, tuple[int, ...]]) -> None:
    outer = shapes[bag.length]
    for place in range(prod(outer)):
        length = values[bag.length][place]
        spans = {name: prod(shapes[name][len(outer) :]) for name in bag.items}
        items = [tuple(values[name][place * spans[name] + k] for name in bag.items) for k in range(length)]
        for k, item in enumerate(sorted(items)):
            for name, value in zip(bag.items, item, strict=True):
                values[name][place * spans[name] + k] = value


def check_symmetry(network: Network, state_count_max: int) -> None:
    """Raises ModelError if some of the first states show that the network distinguishes instances.

    The languages guarantee symmetry by construction; this function tests the guarantee.
    """
    if not network.symmetries:
        return
    interpreter = Interpreter(network)
    moves = list_permutations(network)[1:]
    for permutation in moves:
        if permute(network, interpreter.initial(), permutation) != interpreter.initial():
            raise _asymmetric(network, permutation)
    seen = {interpreter.initial()}
    frontier = [interpreter.initial()]
    while frontier and len(seen) < state_count_max:
        state = frontier.pop(0)
        steps = {step.state for step in interpreter.steps(state)}
        for permutation in moves:
            image = {step.state for step in interpreter.steps(permute(network, state, permutation))}
            if image != {permute(network, step, permutation) for step in steps}:
                raise _asymmetric(network, permutation)
        fresh = sorted(steps - seen, key=lambda step: (step.values, step.queues))
        seen |= steps
        frontier += fresh


def _asymmetric(network: Network, permutation: Permutation) -> ModelError:
    moved = [s for s in network.symmetries if permutation[s.name] != tuple(range(s.size))]
    names = ", ".join(symmetry.name for symmetry in moved)
    return ModelError(
        f"the model treats the instances of {names} differently, so they are not symmetric",
        moved[0].span,
        "remove `symmetric=True`, or the loop that depends on the order of the instances",
    )


def real_run(network: Network, interpreter: Interpreter, canonical: list[State]) -> Iterator[State]:
    """Yields a run of the network with the given canonical states, in order."""
    state = interpreter.initial()
    yield state
    for wanted in canonical[1:]:
        images = orbit(network, wanted)
        state = next(step.state for step in interpreter.steps(state) if step.state in images)
        yield state
