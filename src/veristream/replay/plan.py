"""What has to be done, step by step, so that a real broker takes a run of a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from veristream.errors import ModelError
from veristream.replay.counterparts import Call, Case, Counterpart, Deliver, Missing, Return, Sent
from veristream.replay.table import Messages, Table
from veristream.verdict import Shown, Step, Trace

_LABEL: Final = re.compile(r"(?P<name>[^(]+)(?:\((?P<arguments>.*)\))?")

Name = tuple[str, ...]
"""Names a message of the model: the variable, the sender, and the values of its key."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A step of the run, what stands for it, and the messages that it takes and adds.

    Of messages that wait under the same name, it takes the oldest, or the `newest`. `epoch` is the one that
    a call gives.
    """

    number: int
    action: str
    process: str
    arguments: tuple[str, ...]
    counterpart: Counterpart
    takes: Name | None = None
    adds: Name | None = None
    newest: bool = False
    epoch: int | None = None

    @property
    def title(self) -> str:
        """The step as reports name it."""
        label = f"{self.action}({', '.join(self.arguments)})" if self.arguments else self.action
        return f"step {self.number}, {label} of {self.process}"

    @property
    def client(self) -> str:
        """The process at whose client the message that the step adds waits."""
        return self.adds[1] if self.adds is not None else self.process


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a run; `missing` is the first one that nothing real stands for."""

    steps: tuple[Planned, ...]

    @property
    def missing(self) -> Planned | None:
        """The first step that cannot be executed, and therefore the run cannot."""
        return next((one for one in self.steps if isinstance(one.counterpart, Missing)), None)

    @property
    def processes(self) -> tuple[str, ...]:
        """The processes that have a client, in the order of their first call."""
        calling = [one.process for one in self.steps if isinstance(one.counterpart, Call)]
        return tuple(dict.fromkeys(calling))

    @property
    def held(self) -> Counter[tuple[str, str]]:
        """How many messages of each kind the run decides about, by the client at which they wait."""
        return Counter(
            (one.client, one.counterpart.sends)
            for one in self.steps
            if isinstance(one.counterpart, Call | Sent | Deliver) and one.counterpart.sends
        )


def plan(trace: Trace, table: Table, constants: Mapping[str, int] | None = None) -> Plan:
    """Returns what stands for each step of a run that was found with these constants.

    Raises ModelError if the table does not fit the model.
    """
    if trace.loop is not None:
        raise ModelError("the run goes on for ever, and a replay ends", hint="replay a property of states")
    values = table.values(constants or {})
    steps = enumerate(pairwise(trace.steps), start=1)
    return Plan(tuple(_Step(number, *states, table).planned(values) for number, states in steps))


def split_label(label: str) -> tuple[str, tuple[str, ...]]:
    """Returns the action's name and its arguments."""
    found = _LABEL.fullmatch(label)
    assert found is not None, label
    arguments = found["arguments"]
    return found["name"], tuple(arguments.split(", ")) if arguments else ()


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that is planned, with the states before and after it."""

    number: int
    before: Step
    after: Step
    table: Table

    @property
    def process(self) -> str:
        """The process that takes the step."""
        return self.after.process or ""

    def planned(self, constants: Mapping[str, int]) -> Planned:
        """Returns the first case that fits."""
        assert self.after.action is not None, "only a last step of a timed run has no action"
        action, arguments = split_label(self.after.action)
        if action not in self.table.actions:
            raise ModelError(
                f"the table for {self.table.file} says nothing of its action {action}",
                hint=f"add `{action} = {{ missing = … }}` if nothing real stands for it",
            )
        for case in self.table.actions[action]:
            if case.constants.items() <= constants.items() and self._fits(case):
                does = case.counterpart
                takes, adds = self._messages(does)
                newest = takes is not None and self.table.messages[takes[0]].newest
                head = self.number, action, self.process, arguments
                return Planned(*head, does, takes, adds, newest, self._epoch(does))
        raise ModelError(
            f"no case of {action} in the table for {self.table.file} fits step {self.number} of the run"
        )

    def _messages(self, counterpart: Counterpart) -> tuple[Name | None, Name | None]:
        match counterpart:
            case Call(into=into, takes=takes) | Deliver(into=into, taken_from=takes):
                return self._taken(takes) if takes else None, self._added(into) if into else None
            case Sent(into=into):
                return None, self._added(into)
            case _:
                return None, None

    def _fits(self, case: Case) -> bool:
        """Whether the states are those that a case is about."""
        if not (self._has(self.before, case.before) and self._has(self.after, case.after)):
            return False
        if not case.adds or not isinstance(case.counterpart, Deliver):
            return True
        there, then = (self._value(one, case.counterpart.taken_from) for one in (self.before, self.after))
        if not isinstance(there, list) or not isinstance(then, list):
            return False
        added = [one for one in then if one not in there and isinstance(one, dict)]
        return any(case.adds.items() <= one.items() for one in added)

    def _epoch(self, counterpart: Counterpart) -> int | None:
        """Returns the epoch that the process has once its call has returned, if the table asks for it."""
        if not isinstance(counterpart, Return) or not counterpart.epoch:
            return None
        name = f"{self.process}.{counterpart.epoch}"
        value = self.after.state.get(name)
        if not isinstance(value, int):
            raise ModelError(f"`{name}` is no number in the model")
        return value

    def _has(self, step: Step, values: Mapping[str, object]) -> bool:
        return all(step.state.get(f"{self.process}.{name}") == value for name, value in values.items())

    def _taken(self, variable: str) -> Name:
        return self._changed(self.before, self.after, variable, "takes")

    def _added(self, variable: str) -> Name:
        return self._changed(self.after, self.before, variable, "adds")

    def _changed(self, more: Step, less: Step, variable: str, verb: str) -> Name:
        """Returns the one message that a variable has in one state and not in the other."""
        left = Counter(self._names(more, variable))
        left.subtract(self._names(less, variable))
        found = [name for name, times in left.items() if times > 0]
        if len(found) != 1:
            count = len(found) or "no"
            raise ModelError(
                f"step {self.number} {verb} {count} messages, as `{variable}` has it, and not one"
            )
        return found[0]

    def _names(self, step: Step, variable: str) -> Sequence[Name]:
        value = self._value(step, variable)
        if not isinstance(value, list):
            raise ModelError(f"`{variable}` is no collection of messages in the model")
        return [_name(one, variable, self.table.messages[variable]) for one in value]

    def _value(self, step: Step, variable: str) -> Shown | None:
        """Returns the value of a variable of the model, or of the process's own."""
        return step.state.get(variable, step.state.get(f"{self.process}.{variable}"))


def _name(message: Shown, variable: str, messages: Messages) -> Name:
    if not messages.key:
        return (variable, messages.sender, str(message))
    if not isinstance(message, dict) or any(
        each not in message for each in (messages.sender, *messages.key)
    ):
        raise ModelError(f"what `{variable}` contains lacks a field that the table names: {message}")
    return (variable, str(message[messages.sender]), *(str(message[each]) for each in messages.key))
