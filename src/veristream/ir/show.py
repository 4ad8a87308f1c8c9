"""Readable forms of states.

Enum members are shown by name, arrays as lists, queues as lists of messages. Two naming conventions apply:
variables `x.len` and `x.item` (or `x.item.f`, ...) form one sequence `x`, and a variable `R.x` that is an
array over components `R(0)`, `R(1)`, ... is shown as `R(i).x` of each component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

from veristream.ir.clocks import list_clocks
from veristream.ir.expr import Type
from veristream.ir.network import Channel, ChannelKind, Enumeration, Network, all_variables
from veristream.ir.state import IDLE, Contents, State
from veristream.verdict import Shown

Shapes = Mapping[str, tuple[int, ...]]


def show_state(network: Network, state: State) -> dict[str, Shown]:
    """Returns the readable state by name; omits components with a single location."""
    members = {enum.name: enum for enum in network.enums}
    shown: dict[str, Shown] = {}
    values = iter(state.values)
    for variable in all_variables(network):
        elements = [_show(next(values), variable.type, members) for _ in _elements(variable.shape)]
        shown[variable.name] = _nest(elements, variable.shape)
    shapes = {variable.name: variable.shape for variable in all_variables(network)}
    shown = _deal_out(network, *_gather(shown, shapes))
    queues = iter(state.queues)
    for channel in network.channels:
        if channel.kind is ChannelKind.BUFFER:
            contents = [_show_queue(next(queues), channel, members) for _ in _elements(channel.shape)]
            shown[channel.name] = _nest(contents, channel.shape)
    for component, location in zip(network.components, state.locations, strict=True):
        if len(component.locations) > 1 or component.idle:
            idle = location == IDLE
            shown[component.name] = "idle" if idle else component.locations[location].name
    return shown


def show_timed(network: Network, state: State, clocks: Sequence[Fraction]) -> dict[str, Shown]:
    """Returns the readable state by name, with its clocks; `clocks` are their values by number, with 0."""
    shown = show_state(network, state)
    for name, value in zip(list_clocks(network)[1:], clocks[1:], strict=True):
        shown[name] = int(value) if value.denominator == 1 else float(value)
    return shown


def _elements(shape: tuple[int, ...]) -> range:
    return range(prod(shape))


def _show_queue(contents: Contents, channel: Channel, members: Mapping[str, Enumeration]) -> Shown:
    shown: list[Shown] = []
    for message in contents:
        parts = [_show(value, type_, members) for value, type_ in zip(message, channel.fields, strict=True)]
        shown.append(parts[0] if len(parts) == 1 else parts)
    return shown


def _show(value: int, type_: Type, members: Mapping[str, Enumeration]) -> Shown:
    if type_.enum == "bool":
        return bool(value)
    if type_.enum is not None:
        return _show_member(value, members[type_.enum])
    return value


def _show_member(value: int, enum: Enumeration) -> Shown:
    if enum.of_set:
        return [member for bit, member in enumerate(enum.members) if value >> bit & 1]
    return enum.members[value - enum.low]


def _nest(elements: Sequence[Shown], shape: tuple[int, ...]) -> Shown:
    if not shape:
        return elements[0]
    size = prod(shape[1:])
    return [_nest(elements[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def _gather(shown: dict[str, Shown], shapes: Shapes) -> tuple[dict[str, Shown], Shapes]:
    """Merges `x.len` and `x.item...` into one list `x`."""
    result: dict[str, Shown] = {}
    kept: dict[str, tuple[int, ...]] = {}
    for name, value in shown.items():
        stem, _, last = name.rpartition(".")
        parts = _parts_of(stem, shown) if last == "len" else {}
        if parts:
            result[stem] = _sequence(value, parts, len(shapes[name]))
            kept[stem] = shapes[name]
        elif not any(f"{owner}.len" in shown for owner in _owners(name)):
            result[name] = value
            kept[name] = shapes[name]
    return result, kept


def _parts_of(stem: str, shown: Mapping[str, Shown]) -> dict[str, Shown]:
    """Returns `stem.item`, or the fields of `stem.item`, by what follows `item`."""
    return {
        other[len(stem) + 6 :]: shown[other]
        for other in shown
        if other == f"{stem}.item" or other.startswith(f"{stem}.item.")
    }


def _owners(name: str) -> list[str]:
    """Returns the names of sequences that the variable could be an item of."""
    if ".item" not in name:
        return []
    return [name[:at] for at in range(len(name)) if name.startswith(".item", at)]


def _sequence(length: Shown, parts: Mapping[str, Shown], rank: int) -> Shown:
    if rank:
        assert isinstance(length, list)
        return [
            _sequence(one, {key: _at(part, i) for key, part in parts.items()}, rank - 1)
            for i, one in enumerate(length)
        ]
    assert isinstance(length, int)
    if set(parts) == {""}:
        return [_at(parts[""], i) for i in range(length)]
    return [{key.lstrip("."): _at(part, i) for key, part in parts.items()} for i in range(length)]


def _at(value: Shown, index: int) -> Shown:
    assert isinstance(value, list)
    return value[index]


def _deal_out(network: Network, shown: dict[str, Shown], shapes: Shapes) -> dict[str, Shown]:
    """Splits arrays over a role's instances into one entry per instance."""
    names = {component.name for component in network.components}
    result: dict[str, Shown] = {}
    for name, value in shown.items():
        role, _, rest = name.partition(".")
        count = shapes[name][0] if shapes[name] else 0
        if count and isinstance(value, list) and all(f"{role}({i})" in names for i in range(count)):
            for number in range(count):
                result[f"{role}({number}).{rest}"] = value[number]
        else:
            result[name] = value
    return result
