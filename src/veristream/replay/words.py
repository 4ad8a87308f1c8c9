"""The words that mean something to the stage of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veristream.errors import ModelError, suggest
from veristream.replay.counterparts import Call, Deliver, Do, Sent
from veristream.replay.plan import Plan


@dataclass(frozen=True, slots=True)
class Words:
    """What a table may say of a broker: calls of clients, kinds of messages, deeds, what is observed."""

    broker: str
    calls: Sequence[str]
    kinds: Sequence[str]
    deeds: Sequence[str]
    observed: Sequence[str] = ()

    def check(self, plan: Plan, observes: str = "") -> None:
        """Raises ModelError if a plan has words that mean nothing to this broker's stage."""
        for step in plan.steps:
            match step.counterpart:
                case Call(verb) if verb not in self.calls:
                    raise self._error(f"`{verb}` is no call of a client of {self.broker}", verb, self.calls)
                case Call(sends=kind) | Sent(sends=kind) | Deliver(sends=kind) if (
                    kind and kind not in self.kinds
                ):
                    raise self._error(
                        f"`{kind}` is no message of {self.broker} that is steered", kind, self.kinds
                    )
                case Do(what) if what not in self.deeds:
                    raise self._error(f"nobody knows how to do `{what}` to {self.broker}", what, self.deeds)
                case _:
                    pass
        if observes and observes not in self.observed:
            raise self._error(
                f"`{observes}` is nothing that is observed of {self.broker}", observes, self.observed
            )

    def _error(self, message: str, word: str, known: Sequence[str]) -> ModelError:
        return ModelError(message, hint=suggest(word, known, f"one of {', '.join(known) or 'none'}"))
