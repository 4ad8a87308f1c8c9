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
    """A step of the run and what stands for it; `message` is the one that it sends or takes.

    `sender` is the process whose client sends that message. `epoch` is the one that a call gives.
    """

    number: int
    action: str
    process: str
    arguments: tuple[str, ...]
    counterpart: Counterpart
    message: Name | None = None
    epoch: int | None = None

    @property
    def title(self) -> str:
        """The step as reports name it."""
        label = f"{self.action}({', '.join(self.arguments)})" if self.arguments else self.action
        return f"step {self.number}, {label} of {self.process}"

    @property
    def sender(self) -> str:
        """The process whose client sends the message."""
        return self.message[1] if self.message is not None else self.process


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
    def steered(self) -> frozenset[str]:
        """The kinds of messages that the run decides about."""
        sending = [one.counterpart for one in self.steps]
        return frozenset(one.sends for one in sending if isinstance(one, Call | Sent) and one.sends)


def plan(trace: Trace, table: Table) -> Plan:
    """Returns what stands for each step of a run; raises ModelError if the table does not fit the model."""
    if trace.loop is not None:
        raise ModelError("the run goes on for ever, and a replay ends", hint="replay a property of states")
    return Plan(
        tuple(_step(number, *states, table) for number, states in enumerate(pairwise(trace.steps), start=1))
    )


def split_label(label: str) -> tuple[str, tuple[str, ...]]:
    """Returns the action's name and its arguments."""
    found = _LABEL.fullmatch(label)
    assert found is not None, label
    arguments = found["arguments"]
    return found["name"], tuple(arguments.split(", ")) if arguments else ()


def _step(number: int, before: Step, after: Step, table: Table) -> Planned:
    assert after.action is not None, "only a last step of a timed run has no action"
    action, arguments = split_label(after.action)
    process = after.process or ""
    if action not in table.actions:
        raise ModelError(
            f"the table for {table.file} says nothing of its action {action}",
            hint=f"add `{action} = {{ missing = … }}` if nothing real stands for it",
        )
    for case in table.actions[action]:
        if _fits(case, before, after, process):
            counterpart = case.counterpart
            break
    else:
        raise ModelError(f"no case of {action} in the table for {table.file} fits step {number} of the run")
    message: Name | None = None
    epoch: int | None = None
    match counterpart:
        case Call(into=into) | Sent(into=into) if into:
            message = _changed(after, before, into, table.messages[into], f"step {number} adds")
        case Deliver(taken_from=variable):
            message = _changed(before, after, variable, table.messages[variable], f"step {number} takes")
        case Return(epoch=variable) if variable:
            epoch = _number(after, f"{process}.{variable}")
        case _:
            pass
    return Planned(number, action, process, arguments, counterpart, message, epoch)


def _fits(case: Case, before: Step, after: Step, process: str) -> bool:
    """Whether a step is one that a case is about."""
    if not (_has(before, process, case.before) and _has(after, process, case.after)):
        return False
    if not case.adds or not isinstance(case.counterpart, Deliver):
        return True
    there, then = (one.state.get(case.counterpart.taken_from) for one in (before, after))
    if not isinstance(there, list) or not isinstance(then, list):
        return False
    added = [one for one in then if one not in there and isinstance(one, dict)]
    return any(case.adds.items() <= one.items() for one in added)


def _number(step: Step, name: str) -> int:
    value = step.state.get(name)
    if not isinstance(value, int):
        raise ModelError(f"`{name}` is no number in the model")
    return value


def _has(step: Step, process: str, values: Mapping[str, object]) -> bool:
    return all(step.state.get(f"{process}.{name}") == value for name, value in values.items())


def _changed(more: Step, less: Step, variable: str, messages: Messages, what: str) -> Name:
    """Returns the one message that a variable has in one state and not in the other."""
    left = Counter(_names(more, variable, messages))
    left.subtract(_names(less, variable, messages))
    found = [name for name, times in left.items() if times > 0]
    if len(found) != 1:
        raise ModelError(f"{what} {len(found) or 'no'} messages, as `{variable}` has it, and not one")
    return found[0]


def _names(step: Step, variable: str, messages: Messages) -> Sequence[Name]:
    value = step.state.get(variable)
    if not isinstance(value, list):
        raise ModelError(f"`{variable}` is no collection of messages in the model")
    return [_name(one, variable, messages) for one in value]


def _name(message: Shown, variable: str, messages: Messages) -> Name:
    if not isinstance(message, dict) or any(
        each not in message for each in (messages.sender, *messages.key)
    ):
        raise ModelError(f"what `{variable}` contains lacks a field that the table names: {message}")
    return (variable, str(message[messages.sender]), *(str(message[each]) for each in messages.key))
