"""The entry point of CSP#: from a file to Networks, one for each process that assertions name.

`read.parse` yields a Specification. `automata` turns a process of it into automata, `components` into a
Network, `ranges` narrows its variables, `claims` translates the assertions, and `words` avoids overflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import property as prop
from veristream.ir.chosen import find_named
from veristream.ir.network import Network, Variable
from veristream.ir.verify import verify
from veristream.ir.walk import walk
from veristream.languages.csp import syntax
from veristream.languages.csp.lower.automata import Automata, build
from veristream.languages.csp.lower.claims import write_claim
from veristream.languages.csp.lower.components import Writer
from veristream.languages.csp.lower.expressions import Translator
from veristream.languages.csp.lower.hidden import drop_scratch
from veristream.languages.csp.lower.ranges import narrow
from veristream.languages.csp.lower.spell import spell_term
from veristream.languages.csp.lower.stacks.write import HEIGHT, NEXT
from veristream.languages.csp.lower.terms import COPIES_MAX
from veristream.languages.csp.lower.words import add_outside, keep_words
from veristream.languages.csp.read.parse import read_specification
from veristream.languages.stacks import STACK_MAX
from veristream.source import NOWHERE, Source


def read_models(
    source: Source,
    constants: Mapping[str, int],
    names: Sequence[str] = (),
    stack_max: int = STACK_MAX,
) -> tuple[Network, ...]:
    """Returns the verified Networks of a file, in the order in which assertions first name their processes.

    With `names`, only of the processes that these assertions speak of, and with these assertions only.
    Without assertions, returns the last process that has no parameters. At most `stack_max` processes wait
    in a stack. Raises ModelError if the model is invalid.
    """
    specification = read_specification(source, constants)
    if names and specification.assertions:
        specification = _restricted(specification, names)
    subjects = _subjects(specification) or [_main(specification)]
    lowered: dict[syntax.Ref, Network] = {}
    return tuple(_with_properties(specification, subject, lowered, stack_max) for subject in subjects)


def _subjects(specification: syntax.Specification) -> list[syntax.Ref]:
    return list(dict.fromkeys(assertion.process for assertion in specification.assertions))


def _restricted(specification: syntax.Specification, names: Sequence[str]) -> syntax.Specification:
    """Leaves out the assertions that are not named; raises ModelError if there is no such assertion."""
    assertions, subjects = specification.assertions, _subjects(specification)
    texts = [one.text for subject in subjects for one in assertions if one.process == subject]
    chosen = find_named(names, dict.fromkeys(texts), specification.span)
    return replace(specification, assertions=tuple(one for one in assertions if one.text in chosen))


def _main(specification: syntax.Specification) -> syntax.Ref:
    for definition in reversed(specification.definitions):
        if not definition.parameters:
            return syntax.Ref(definition.name, span=definition.span)
    raise ModelError(
        "the model has no assertion and no process without parameters",
        specification.span,
        "define a process to check, such as `System() = ...;`",
    )


def lower(specification: syntax.Specification, process: syntax.Ref, stack_max: int = STACK_MAX) -> Network:
    """Lowers a process to a Network without properties."""
    begin, automata = build(specification, process, stack_max)
    writer = Writer(specification, automata, begin)
    network = Network(
        spell_term(process),
        enums=writer.enums(),
        variables=tuple(_variable(one) for one in specification.variables),
        channels=(*writer.channels.declared(), *writer.barriers()),
        components=writer.components(),
        remark=_remark(automata),
        span=specification.span,
    )
    fixed = frozenset(
        one.name for one in specification.variables if one.low is not None or one.high is not None
    )
    places = frozenset(
        one.name
        for part in network.components
        for one in part.variables
        if one.name.endswith((".n", ".at", HEIGHT, NEXT))
    )
    hidden = frozenset(one.name for one in specification.variables if one.hidden)
    return narrow(add_outside(drop_scratch(network, hidden, _observed(specification))), fixed | places)


def _observed(specification: syntax.Specification) -> frozenset[str]:
    """Returns the variables that claims read."""
    claims = tuple(assertion.claim for assertion in specification.assertions)
    return frozenset(part.name for part in walk(claims) if isinstance(part, syntax.Global))


def _remark(automata: Automata) -> str:
    """Returns the caveat for all verdicts if unlimited copies were bounded."""
    if not automata.steps.endless:
        return ""
    return f"with at most {COPIES_MAX} concurrent copies of each `|||{{..}}`"


def _variable(variable: syntax.Variable) -> Variable:
    type_ = ir.BOOL if variable.boolean else ir.INT
    if variable.low is not None or variable.high is not None:
        low = ir.INT.low if variable.low is None else variable.low
        type_ = ir.Type(low, ir.INT.high if variable.high is None else variable.high)
    return Variable(variable.name, type_, variable.shape, variable.initial, span=variable.span)


def _with_properties(
    specification: syntax.Specification,
    subject: syntax.Ref,
    lowered: dict[syntax.Ref, Network],
    stack_max: int,
) -> Network:
    network = _lowered(specification, subject, lowered, stack_max)
    translator = Translator(
        {one.name: one.shape for one in specification.variables},
        {channel.name: channel.capacity for channel in specification.channels},
        {},
    )
    properties: list[prop.Property] = []
    names: set[str] = set()
    for assertion in specification.assertions:
        if assertion.process != subject or assertion.text in names:
            continue
        names.add(assertion.text)
        if isinstance(assertion.claim, syntax.Refines):
            other = _lowered(specification, assertion.claim.specification, lowered, stack_max)
            claim: prop.Claim = prop.Refines(keep_words(other), assertion.claim.model)
        else:
            claim = write_claim(assertion.claim, translator)
        properties.append(prop.Property(assertion.text, claim, span=assertion.span))
    complete = keep_words(replace(network, properties=tuple(properties)))
    _verify(complete, subject)
    return complete


def _verify(network: Network, subject: syntax.Ref) -> None:
    """Raises ModelError at what is wrong, or at the process if only a part that has no text is wrong."""
    try:
        verify(network)
    except ModelError as error:
        if error.span.source is not NOWHERE.source:
            raise
        raise ModelError(error.message, subject.span, error.hint) from None


def _lowered(
    specification: syntax.Specification,
    process: syntax.Ref,
    lowered: dict[syntax.Ref, Network],
    stack_max: int,
) -> Network:
    if process not in lowered:
        lowered[process] = lower(specification, process, stack_max)
    return lowered[process]
