"""Inputs and outputs of the consensus state machine."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.messages import Certificate, Message, Signed, Step, Value


@dataclass(frozen=True, slots=True)
class Start:
    """Start a height: the one after the last decision, or the current one of a restarted validator."""

    height: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message of another validator with verified signatures."""

    message: Message


@dataclass(frozen=True, slots=True)
class Timeout:
    """The timeout of a `Schedule` has expired."""

    step: Step
    height: int
    round: int


@dataclass(frozen=True, slots=True)
class Resend:
    """Nothing has changed for a while: send again what others may have missed."""


Input = Start | Received | Timeout | Resend


@dataclass(frozen=True, slots=True)
class Persist:
    """Make this record durable before any later output; obsolete once a later height has started."""

    height: int
    record: bytes


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send to all other validators."""

    message: Message


@dataclass(frozen=True, slots=True)
class Schedule:
    """Deliver the `Timeout` of this step, height and round after `delay_ms`."""

    step: Step
    height: int
    round: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Decide:
    """The final decision of this height; the certificate contains the precommits."""

    height: int
    value: Value
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Conflict:
    """Evidence: one validator signed both messages, which a correct validator never does."""

    first: Signed
    second: Signed


Output = Persist | Broadcast | Schedule | Decide | Conflict
