"""What the operators of TLA+ itself do to values; compiled expressions call these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from veristream.languages.tla.values.sets import (
    Functions,
    Interval,
    Records,
    Subsets,
    Tuples,
    Union,
    Without,
    is_endless,
    member,
    pairs,
)
from veristream.languages.tla.values.values import (
    Delayed,
    Described,
    EvaluationError,
    Mapped,
    ModelValue,
    Value,
    check_kinds,
    elements,
    explicit,
    function,
    in_order,
    make_set,
    ordered,
    show,
)


class Lazy:
    """An argument or a definition that is evaluated when it is needed, and once."""

    __slots__ = ("_compute", "_value")

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute: Callable[[], Value] | None = compute
        self._value: Value = None

    def __call__(self) -> Value:
        if self._compute is not None:
            self._value = self._compute()
            self._compute = None
        return self._value


def equal(left: Value, right: Value) -> bool:
    if type(left) is type(right):
        return bool(left == right)
    if isinstance(left, ModelValue) or isinstance(right, ModelValue):
        return False
    check_kinds(left, right)
    return bool(left == right)


def boolean(value: Value) -> bool:
    if value is True or value is False:
        return value
    raise EvaluationError(f"{show(value)} is neither TRUE nor FALSE")


def number(value: Value) -> int:
    if type(value) is int:
        return value
    raise EvaluationError(f"{show(value)} is no number")


def add(left: Value, right: Value) -> int:
    return number(left) + number(right)


def subtract(left: Value, right: Value) -> int:
    return number(left) - number(right)


def multiply(left: Value, right: Value) -> int:
    return number(left) * number(right)


def divide(left: Value, right: Value) -> int:
    if number(right) == 0:
        raise EvaluationError(f"{show(left)} is divided by 0")
    return number(left) // number(right)


def modulo(left: Value, right: Value) -> int:
    if number(right) <= 0:
        raise EvaluationError(f"the second argument of % is {right}; it must be positive")
    return number(left) % number(right)


def power(left: Value, right: Value) -> int:
    if number(right) < 0:
        raise EvaluationError(f"the exponent {right} is negative")
    return int(number(left) ** right)


def negate(value: Value) -> int:
    return -number(value)


def less(left: Value, right: Value) -> bool:
    return number(left) < number(right)


def at_most(left: Value, right: Value) -> bool:
    return number(left) <= number(right)


def greater(left: Value, right: Value) -> bool:
    return number(left) > number(right)


def at_least(left: Value, right: Value) -> bool:
    return number(left) >= number(right)


def interval(low: Value, high: Value) -> Value:
    return Interval(number(low), number(high))


def union(left: Value, right: Value) -> Value:
    return union_of(left, right)


def intersection(left: Value, right: Value) -> Value:
    if is_endless(left):
        left, right = right, left
    return frozenset(one for one in elements(left) if member(one, right))


def difference(left: Value, right: Value) -> Value:
    if is_endless(left):
        return Without(left, right)
    if type(right) is frozenset:
        return explicit(left) - right
    return frozenset(one for one in elements(left) if not member(one, right))


def is_subset(left: Value, right: Value) -> bool:
    return all(member(one, right) for one in elements(left))


def big_union(value: Value) -> Value:
    return union_of(*elements(value))


def union_of(*parts: Value) -> Value:
    if all(isinstance(one, frozenset | Interval) for one in parts):
        return make_set(one for each in parts for one in elements(each))
    for one in parts:
        if not isinstance(one, frozenset | Described):
            raise EvaluationError(f"{show(one)} is no set")
    return Union(parts)


def subsets(value: Value) -> Value:
    return Subsets(value)


def product(*factors: Value) -> Value:
    return Tuples(factors)


def functions(domain: Value, range_: Value) -> Value:
    return Functions(domain, range_)


def records(fields: dict[str, Value]) -> Value:
    return Records(fields)


def record(fields: dict[str, Value]) -> Value:
    return Mapped(fields)


def image(values: Iterable[Value]) -> Value:
    return make_set(values)


def domain(value: Value) -> Value:
    match value:
        case tuple():
            return Interval(1, len(value))
        case Mapped():
            return frozenset(value.items)
        case Delayed():
            return value.domain
        case _:
            raise EvaluationError(f"{show(value)} is no function: it has no domain")


def apply(what: Value, argument: Value) -> Value:
    """The value of a function at an argument."""
    if type(what) is tuple:
        if type(argument) is int and 0 < argument <= len(what):
            return what[argument - 1]
    elif type(what) is Mapped:
        try:
            return what.items[argument]
        except KeyError:
            pass
    elif type(what) is Delayed:
        if member(argument, what.domain):
            return what.at(argument)
    else:
        raise EvaluationError(f"{show(what)} is no function: it cannot be applied to {show(argument)}")
    raise EvaluationError(f"{show(argument)} is not in the domain of {show(what)}")


def check_domain(sets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
    """Raises EvaluationError for arguments that a function has no value for."""
    for of, value in zip(sets, values, strict=True):
        if not member(value, of):
            raise EvaluationError(f"{show(value)} is not in the domain of the function")


def build(domain: Value, compute: Callable[[Value], Value]) -> Value:
    """`[x \\in domain |-> compute(x)]`."""
    if is_endless(domain):
        return Delayed(domain, compute)
    return function({each: compute(each) for each in elements(domain)})


def recursive(domain: Value, compute: Callable[[Value, Value], Value]) -> Value:
    """A function whose definition uses the function itself."""
    found = Delayed(domain, lambda argument: compute(found, argument))
    return found


def changed(base: Value, path: tuple[Value, ...], compute: Callable[[Value], Value]) -> Value:
    """`[base EXCEPT !path = compute(@)]`; a path that leads nowhere changes nothing."""
    if not path:
        return compute(base)
    argument, rest = path[0], path[1:]
    match base:
        case tuple():
            if type(argument) is int and 0 < argument <= len(base):
                at = argument - 1
                return (*base[:at], changed(base[at], rest, compute), *base[argument:])
            return base
        case Mapped():
            if argument in base.items:
                return Mapped({**base.items, argument: changed(base.items[argument], rest, compute)})
            return base
        case Delayed():
            if not is_endless(base.domain):
                return changed(base.whole, path, compute)
            return Delayed(
                base.domain,
                lambda each: changed(base.at(each), rest, compute) if each == argument else base.at(each),
            )
        case _:
            raise EvaluationError(f"{show(base)} is no function: EXCEPT cannot change it")


def choose(of: Value, condition: Callable[[Value], bool]) -> Value:
    """The first element, in the order of TLC, of which the condition holds."""
    ordered = of.enumerate() if isinstance(of, Described) else in_order(of)
    for one in ordered:
        if condition(one):
            return one
    raise EvaluationError(f"no element of {show(of)} satisfies the condition of CHOOSE")


def tuples(of: Value, size: int) -> Iterator[Value]:
    """The elements of a set of tuples of one length."""
    for one in ordered(of):
        if not isinstance(one, tuple) or len(one) != size:
            raise EvaluationError(f"{show(one)} is no tuple of {size} values")
        yield one


def assigned(state: list[Value] | None, at: int, name: str) -> Value:
    """The value of a variable that may have none yet; there may not even be a state."""
    value = None if state is None else state[at]
    if value is None:
        raise EvaluationError(f"{name} has no value yet when it is used")
    return value


def assign(state: list[Value], at: int, value: Value) -> Iterator[None]:
    """Lets the rest of an action run with the variable's value; not if it has another one."""
    if state[at] is None:
        state[at] = value
        yield
        state[at] = None
    elif equal(state[at], value):
        yield


def assign_each(state: list[Value], at: int, of: Value) -> Iterator[None]:
    """Lets the rest of an action run with each element of a set as the variable's value."""
    if state[at] is not None:
        if member(state[at], of):
            yield
        return
    for value in ordered(of):
        state[at] = value
        yield
    state[at] = None


def keep(state: list[Value], following: list[Value], places: tuple[int, ...]) -> Iterator[None]:
    """Lets the rest of an action run with these variables unchanged."""
    free = [at for at in places if following[at] is None]
    if len(free) < len(places) and not all(
        equal(state[at], following[at]) for at in places if following[at] is not None
    ):
        return
    for at in free:
        following[at] = state[at]
    yield
    for at in free:
        following[at] = None


class Found(Exception):  # noqa: N818  # ends a search that found something
    """An action is enabled."""


def found() -> None:
    raise Found


def enabled(count: int, state: list[Value], action: Callable[..., None]) -> bool:
    """Whether the action has a step from the state."""
    try:
        action(state, [None] * count, found)
    except Found:
        return True
    return False


def label(name: str, *arguments: Value) -> str:
    """The name of an action with its arguments."""
    return f"{name}({', '.join(map(show, arguments))})" if arguments else name


def no_case() -> Value:
    raise EvaluationError("no arm of CASE applies, and there is no OTHER")


def fail(message: str) -> Value:
    raise EvaluationError(message)


def fix(make: Callable[[Callable[..., Value]], Callable[..., Value]]) -> Callable[..., Value]:
    """A function whose definition uses the function itself."""

    def fixed(*arguments: Value) -> Value:
        return function_(*arguments)

    function_ = make(fixed)
    return fixed


RUNTIME: Final = {
    one.__name__: one
    for one in (
        Lazy, equal, boolean, number, add, subtract, multiply, divide, modulo, power, negate, less, at_most,
        greater, at_least, interval, union, intersection, difference, is_subset, big_union, union_of,
        subsets, product, functions, records, record, image, domain, apply, check_domain, build, recursive,
        changed, choose, tuples, assigned, assign, assign_each, keep, enabled, label, no_case, fail, fix,
        member, elements, ordered, make_set, explicit, pairs,
    )
}  # fmt: skip
"""What compiled code may call, by name."""
