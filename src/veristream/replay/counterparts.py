"""What stands for an action of a model on a real broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Word = Literal["ok", "refused", "any"]
Expected = Word | str
"""What an answer or an outcome has to be, so that reality is still where the run is; or an error's name."""


@dataclass(frozen=True, slots=True)
class Call:
    """The process calls its client.

    With `sends`, this makes the client send a message of that kind, which stays at the proxy; in the model,
    it is then in the variable `into`. If it stays `behind` those of its client that are in the variable
    already, it comes to the proxy once they have gone on. With `returns`, the step lasts until the call
    ends so. With `takes`, the call is about the message that the step takes from this variable, and gets
    its key as arguments.
    """

    verb: str
    sends: str = ""
    into: str = ""
    behind: bool = False
    returns: Expected | None = None
    takes: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """The client sends a message as part of a call that it began before; it stays at the proxy."""

    sends: str
    into: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """The message that the step takes from the variable `taken_from` goes on, and the broker answers.

    Without an `answer`, the broker answers in a later step. With `sends`, something that the broker then
    says to the same client stays at the proxy, as in `Call`.
    """

    taken_from: str
    answer: Expected | None = "ok"
    sends: str = ""
    into: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """The call that the process began ends, and gives the epoch that its variable `epoch` then has."""

    outcome: Expected = "ok"
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """Something happens to the broker, or time passes; the stage knows what the word means.

    The messages in the variables `loses` are lost by it.
    """

    what: str
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Itself:
    """Broker or client does it by itself: there is nothing to steer."""

    why: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing real stands for it, so that a run with it cannot be executed."""

    why: str


Counterpart = Call | Sent | Deliver | Return | Do | Itself | Missing


@dataclass(frozen=True, slots=True)
class Case:
    """A counterpart for steps in which the process's variables have these values before and after.

    In those of a delivery, the step also adds a message with the values `adds` to the same variable. It is
    only for runs of a model with these `constants`.
    """

    counterpart: Counterpart
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)
    adds: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
