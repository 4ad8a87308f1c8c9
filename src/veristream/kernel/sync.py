"""Emits LLVM code for the tests of a synchronisation: what a leader offers, what a follower accepts."""

from __future__ import annotations

from typing import Any

from veristream.ir.network import Bind, Channel, Edge, Match, Meet, Receive, Send
from veristream.kernel.frame import Frame, Mover, Offer, unless
from veristream.kernel.values import (
    Place,
    Stored,
    Value,
    checked_indices,
    new_slot,
    require_range,
    truth,
    value,
)


def test_guard(frame: Frame, place: Place, edge: Edge, stop: Any) -> None:
    if edge.guard is not None:
        unless(frame, truth(place, edge.guard), stop)


def channel_of(frame: Frame, name: str) -> Channel:
    return frame.model.names.channels[name]


def sent(place: Place, channel: Channel, send: Send) -> tuple[Value, ...]:
    values = []
    for expr, type_ in zip(send.values, channel.fields, strict=True):
        sent = value(place, expr)
        require_range(place, sent, expr, type_.low, type_.high)
        values.append(sent)
    return tuple(values)


def accept(frame: Frame, place: Place, edge: Edge, message: tuple[Value, ...], stop: Any) -> Place:
    """Emits the tests of the edge's patterns and guard; returns the place with the bound names."""
    assert isinstance(edge.sync, Receive)
    bound = place
    for pattern, type_, part in zip(
        edge.sync.patterns, channel_of(frame, edge.sync.channel).fields, message, strict=True
    ):
        match pattern:
            case Match(value=demanded):
                same = frame.builder.icmp_signed("==", value(place, demanded), part)
                unless(frame, same, stop)
            case Bind(name=name):
                pointer = new_slot(place)
                frame.builder.store(part, pointer)
                bound = bound.with_local(name, Stored(pointer, type_))
    test_guard(frame, bound, edge, stop)
    return bound


def lead(frame: Frame, leader: Mover, stop: Any) -> Offer:
    """Emits the leader's own tests; returns what it offers."""
    test_guard(frame, leader.place, leader.edge, stop)
    match leader.edge.sync:
        case Send(channel=name, indices=indices):
            at = checked_indices(leader.place, name, indices)
            return Offer(at, sent(leader.place, channel_of(frame, name), leader.edge.sync))
        case Meet(channel=name, indices=indices):
            return Offer(checked_indices(leader.place, name, indices), ())
        case _:
            raise AssertionError("only senders and meeters lead others")


def follow(frame: Frame, place: Place, edge: Edge, offer: Offer, stop: Any) -> Place:
    """Emits the follower's tests; returns the place with what it receives."""
    assert isinstance(edge.sync, Receive | Meet)
    for expr, offered in zip(edge.sync.indices, offer.indices, strict=True):
        unless(frame, frame.builder.icmp_signed("==", value(place, expr), offered), stop)
    if isinstance(edge.sync, Receive):
        return accept(frame, place, edge, offer.values, stop)
    test_guard(frame, place, edge, stop)
    return place
