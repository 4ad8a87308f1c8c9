"""Translates the channels of a specification to channels of a Network; part of `components`.

A CSP# channel may carry messages of different lengths, a Network channel may not. A rendezvous channel
becomes one channel per length, since halves of different lengths never match. In a buffer, messages are
padded to the greatest length and carry their length as an additional last field.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.csp.lower.automata import Automata
from veristream.languages.csp.lower.moves import Receives, Sends
from veristream.languages.csp.syntax import Channel, Specification


@dataclass(slots=True)
class Channels:
    """The channels of one specification and the message lengths that the automata use."""

    specification: Specification
    automata: Automata
    _channels: dict[str, Channel] = field(init=False)
    _arities: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._channels = {channel.name: channel for channel in self.specification.channels}
        self._arities = self._lengths()

    def named(self, name: str) -> Channel:
        return self._channels[name]

    def _lengths(self) -> dict[str, list[int]]:
        """Returns the sorted message lengths of each channel."""
        found: dict[str, set[int]] = {name: set() for name in self._channels}
        for component in self.automata.components:
            for arc in component.arcs:
                match arc.move.act:
                    case Sends(channel=name, values=sent):
                        found[name].add(len(sent))
                    case Receives(channel=name, fields=taken):
                        found[name].add(len(taken))
                    case _:
                        pass
        return {name: sorted(lengths or {1}) for name, lengths in found.items()}

    def name(self, name: str, arity: int) -> str:
        """Names the Network channel for messages of a length."""
        arities = self._arities[name]
        if self.named(name).capacity or arity == arities[0]:
            return name
        return f"{name}/{arity}"

    def padded(self, name: str, values: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        """Appends zeros and the length to the fields to send if the buffer has several lengths."""
        arities = self._arities[name]
        if not self.named(name).capacity or len(arities) == 1:
            return values
        rest = (ir.Const(0),) * (arities[-1] - len(values))
        return (*values, *rest, ir.Const(len(values)))

    def patterns(self, name: str, patterns: list[net.Bind | net.Match]) -> tuple[net.Bind | net.Match, ...]:
        arities = self._arities[name]
        if not self.named(name).capacity or len(arities) == 1:
            return tuple(patterns)
        rest = (net.Match(ir.Const(0)),) * (arities[-1] - len(patterns))
        return (*patterns, *rest, net.Match(ir.Const(len(patterns))))

    def declared(self) -> tuple[net.Channel, ...]:
        """Returns the Network channels."""
        out: list[net.Channel] = []
        for channel in self.specification.channels:
            arities = self._arities[channel.name]
            if channel.capacity:
                fields = (ir.INT,) * (arities[-1] + (len(arities) > 1))
                out.append(
                    net.Channel(
                        channel.name,
                        net.ChannelKind.BUFFER,
                        fields,
                        channel.shape,
                        channel.capacity,
                        span=channel.span,
                    )
                )
                continue
            for arity in arities:
                name = self.name(channel.name, arity)
                out.append(
                    net.Channel(
                        name,
                        net.ChannelKind.RENDEZVOUS,
                        (ir.INT,) * arity,
                        channel.shape,
                        span=channel.span,
                    )
                )
        return tuple(out)
