"""Emits the arguments of labels, computed from the state before the step; see `inside` for when."""

from __future__ import annotations

from veristream.ir.actions import Action
from veristream.ir.expr import Local
from veristream.ir.network import Bind, Receive
from veristream.ir.walk import walk
from veristream.kernel.values import (
    Place,
    Stored,
    Value,
    constant,
    flat_index,
    message_part,
    new_slot,
    value,
)
from veristream.kernel.watched.inside import received


def arguments_of(place: Place, action: Action) -> list[Value]:
    """Emits the arguments of a derivable label; the place's state is the one before the step."""
    receive, sent = received(place.model.network, action)
    used = {node.name for node in walk(action.label.arguments) if isinstance(node, Local)}
    scope = place
    for position, pattern in enumerate(() if receive is None else receive.patterns):
        if isinstance(pattern, Bind) and pattern.name in used:
            assert receive is not None
            field = _head(place, receive, position) if sent is None else value(place, sent[position])
            pointer = new_slot(place)
            place.builder.store(field, pointer)
            type_ = place.model.names.channels[receive.channel].fields[position]
            scope = scope.with_local(pattern.name, Stored(pointer, type_))
    return [value(scope, argument) for argument in action.label.arguments]


def _head(place: Place, receive: Receive, position: int) -> Value:
    """The field of the oldest message, which the step received."""
    part = place.model.layout.queues[receive.channel].parts[position]
    index = flat_index(place, receive.channel, receive.indices)
    return message_part(place, part, index, constant(0))
