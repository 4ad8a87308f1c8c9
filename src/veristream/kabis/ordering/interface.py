"""What goes into the consensus machine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.messages import Certificate, Message, Signed, Step, Value


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a height; it is one more than the last one decided, or where a restarted validator stands."""

    height: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message of another validator whose signatures have been verified."""

    message: Message


@dataclass(frozen=True, slots=True)
class Timeout:
    """What a `Schedule` asked for has come."""

    step: Step
    height: int
    round: int


@dataclass(frozen=True, slots=True)
class Resend:
    """Nothing has moved for a while: say again what others may have missed."""


Input = Start | Received | Timeout | Resend


@dataclass(frozen=True, slots=True)
class Persist:
    """Make this record durable before anything that follows; of no use once a later height has begun."""

    height: int
    record: bytes


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send to all other validators."""

    message: Message


@dataclass(frozen=True, slots=True)
class Schedule:
    """Give back the `Timeout` of this step, height and round after so many milliseconds."""

    step: Step
    height: int
    round: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Decide:
    """The value of this height is decided, once and for all; the certificate holds the precommits."""

    height: int
    value: Value
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Conflict:
    """Evidence: one validator signed both of these, which no correct validator does."""

    first: Signed
    second: Signed


Output = Persist | Broadcast | Schedule | Decide | Conflict
