"""The state of the lowering: parts of the network, and functions still to be lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.ir import network as net
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.scope import FunctionName, Ref, Scope


@dataclass(frozen=True, slots=True)
class Request:
    """A called function: its name in the IR, and the targets of its reference parameters.

    Unknown indices of the references become parameters of the specialised function, named in `hidden`.
    """

    name: str
    function: FunctionName
    references: Mapping[str, Ref]
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """An update of every step, and the scope of its declaration."""

    expr: syntax.Expression
    scope: Scope


@dataclass(slots=True)
class Model:
    """The parts of the network that declarations and calls have produced so far."""

    variables: list[net.Variable] = field(default_factory=list)
    clocks: list[net.Clock] = field(default_factory=list)
    channels: list[net.Channel] = field(default_factory=list)
    functions: dict[str, net.Function] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    pending: list[Request] = field(default_factory=list)
    priorities: dict[str, int] = field(default_factory=dict)  # of channels
    before: list[Update] = field(default_factory=list)  # every step
    after: list[Update] = field(default_factory=list)

    def request(self, request: Request) -> None:
        """Queues a function for lowering, unless it has been requested before."""
        if request.name not in self.requests:
            self.requests[request.name] = request
            self.pending.append(request)
