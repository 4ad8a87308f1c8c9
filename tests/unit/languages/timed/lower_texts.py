"""Shortcuts to lower model texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.ir.network import Component, Edge, Network, all_variables
from veristream.ir.oracle.evaluate import flatten
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Property, Rejected
from veristream.ir.state import State
from veristream.languages.timed.lower.network import read_models
from veristream.source import Source


def network(text: str, **constants: int) -> Network:
    """Returns the network of an XTA text."""
    (found,) = read_models(Source("model", text), constants)
    return found


def component(text: str, name: str) -> Component:
    """Returns one component of an XTA text."""
    (found,) = [one for one in network(text).components if one.name == name]
    return found


def declared(text: str) -> Network:
    """Returns the network of global declarations, with a minimal process."""
    return network(f"{text} process P() {{ state A; init A; }} system P;")


def process(labels: str, declarations: str = "", local: str = "", invariant: str = "") -> str:
    """Returns a process with one edge from A to B with the labels."""
    at_a = f"A {{ {invariant} }}" if invariant else "A"
    return (
        f"{declarations} process P() {{ {local} state {at_a}, B; init A; trans A -> B {{ {labels} }}; }} "
        "system P;"
    )


def edge(labels: str, declarations: str = "", local: str = "") -> Edge:
    """Returns the edge with the labels."""
    return network(process(labels, declarations, local)).components[0].edges[0]


def values(model: Network, state: State) -> dict[str, int]:
    """Returns the values of the variables; array elements have their indices in the name."""
    found: dict[str, int] = {}
    first = 0
    for variable in all_variables(model):
        for place in _places(variable.shape):
            name = variable.name + "".join(f"[{index}]" for index in place)
            found[name] = state.values[first + flatten(variable.shape, place)]
        first += len(variable.initial)
    return found


def _places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [()] if not shape else [(i, *rest) for i in range(shape[0]) for rest in _places(shape[1:])]


def updated(update: str, declarations: str = "", local: str = "") -> dict[str, int]:
    """Returns the variables after an edge with the update."""
    model = network(process(f"assign {update};", declarations, local))
    interpreter = Interpreter(model)
    (taken,) = interpreter.steps(interpreter.initial())
    return values(model, taken.state)


def fault(update: str, declarations: str = "", local: str = "") -> str:
    """Returns the message of the fault when an edge with the update is taken."""
    interpreter = Interpreter(network(process(f"assign {update};", declarations, local)))
    (failed,) = interpreter.failures(interpreter.initial())
    return failed.fault.message


def computed(function: str, call: str, declarations: str = "") -> int:
    """Returns the result of a call of the function."""
    return updated(f"result = {call}", f"{declarations} int result; {function}")["result"]


def asked(folder: Path, text: str, *queries: str) -> tuple[Property, ...]:
    """Returns the properties of a text with the queries."""
    path = folder / "model.xta"
    path.with_suffix(".q").write_text("\n".join(queries))
    (found,) = read_models(Source(str(path), text), {})
    return found.properties


def rejected(folder: Path, text: str, query: str) -> Rejected:
    """Returns what is wrong with the only query of a text."""
    path = folder / "model.xta"
    path.with_suffix(".q").write_text(query)
    (found,) = read_models(Source(str(path), text), {})
    assert found.properties == ()
    return found.rejected[0]


def error(text: str) -> ModelError:
    """Returns the error in the text."""
    with pytest.raises(ModelError) as caught:
        network(text)
    return caught.value


def marked(wrong: ModelError) -> str:
    """Returns the text that the error points at."""
    return wrong.span.source.text[wrong.span.start : wrong.span.end]
