"""Mutants of valid models: each is a ModelError, or has the same meaning as in Python.

The seeds are fixed, so that failures are reproducible; change them to search further.
"""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path
from random import Random

import pytest

from tests.unit.languages.actions.execute import Execution
from tests.unit.languages.actions.test_semantics import key_of, show
from veristream.errors import ModelError
from veristream.languages.actions.lower.network import read_model
from veristream.source import Source
from veristream_testing.states import explore

MODELS = Path(__file__).parents[3] / "actions"
FOLDERS = ("constructs", "classics", "failing")
TEXTS = [path.read_text(encoding="utf-8") for f in FOLDERS for path in sorted((MODELS / f).glob("*.py"))]
PYTHON = [path.read_text(encoding="utf-8") for path in sorted(Path(ast.__file__).parent.glob("[a-c]*.py"))]
WORD = re.compile(r"\w+|\s+|[^\w\s]")
STATES_MAX = 100


def mutate_text(text: str, random: Random) -> str:
    """Deletes, repeats or exchanges tokens of the text, or inserts tokens of another model."""
    parts = WORD.findall(text)
    for _ in range(random.choice([1, 1, 2, 3])):
        here, there = random.randrange(len(parts)), random.randrange(len(parts))
        match random.randrange(4):
            case 0:
                del parts[here]
            case 1:
                parts.insert(here, parts[there])
            case 2:
                parts[here], parts[there] = parts[there], parts[here]
            case _:
                parts[here] = random.choice(WORD.findall(random.choice(TEXTS)))
    return "".join(parts)


class Exchange(ast.NodeTransformer):
    """Replaces one node by another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def exchange(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    result = Exchange(old, new).visit(tree)
    assert isinstance(result, ast.Module)
    return result


def mutate_tree(tree: ast.Module, random: Random, strange: list[ast.expr]) -> ast.Module:
    """Exchanges, repeats or deletes an expression or a statement of a function."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = [part for function in functions for one in function.body for part in ast.walk(one)]
    expressions = [
        part
        for part in inside
        if isinstance(part, ast.expr) and not isinstance(getattr(part, "ctx", None), ast.Store)
    ]
    if not expressions:
        return tree
    old, new = random.choice(expressions), copy.deepcopy(random.choice([*expressions, *strange]))
    match random.randrange(6):
        case 0 | 1:
            return exchange(tree, old, new)
        case 2:
            wrapped = random.choice([ast.UnaryOp(ast.USub(), new), ast.UnaryOp(ast.Not(), new)])
            return exchange(tree, old, wrapped)
        case 3:
            operator = random.choice([ast.Sub(), ast.FloorDiv(), ast.Mod(), ast.BitOr(), ast.BitAnd()])
            return exchange(tree, old, ast.BinOp(new, operator, copy.deepcopy(old)))
    block = random.choice(
        [
            part.body
            for part in [*functions, *inside]
            if isinstance(part, ast.If | ast.For | ast.FunctionDef)
        ]
    )
    here, there = random.randrange(len(block)), random.randrange(len(block))
    if random.random() < 0.5:
        block[here], block[there] = block[there], block[here]
    else:
        block.insert(here, copy.deepcopy(block[there]))
    return tree


def mutant(random: Random, strange: list[ast.expr]) -> str:
    tree = ast.parse(random.choice(TEXTS))
    for _ in range(random.choice([1, 1, 2])):
        tree = mutate_tree(tree, random, strange)
    return ast.unparse(ast.fix_missing_locations(tree))


def read_or_refuse(text: str) -> None:
    """Fails the test unless the text is read or raises ModelError."""
    try:
        read_model(Source("m.py", text))
    except ModelError as error:
        error.render()


@pytest.mark.parametrize("seed", range(4))
def test_texts_give_a_network_or_an_error(seed: int) -> None:
    random = Random(seed)
    for _ in range(400):
        text = mutate_text(random.choice(TEXTS), random)
        read_or_refuse(text)


def test_python_that_is_no_model_is_an_error() -> None:
    for text in PYTHON:
        with pytest.raises(ModelError):
            read_model(Source("m.py", text))


@pytest.mark.parametrize("seed", range(4))
def test_models_with_strange_expressions_give_a_network_or_an_error(seed: int) -> None:
    random = Random(seed)
    trees = [ast.parse(text) for text in random.sample(PYTHON, 5)]
    strange = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.expr)]
    random.shuffle(strange)
    for _ in range(200):
        text = mutant(random, strange[:200])
        read_or_refuse(text)


@pytest.mark.parametrize("seed", range(4))
def test_mutants_mean_what_python_says(seed: int) -> None:
    random = Random(seed)
    strange = [
        ast.parse(text, mode="eval").body for text in ("-1", "0", "None", "True", "set()", "[]", "{1}", "2")
    ]
    compared = 0
    while compared < 25:
        text = mutant(random, strange)
        try:
            network = read_model(Source("m.py", text))
        except ModelError:
            continue
        explored = explore(network, STATES_MAX)
        if explored.complete:
            compared += 1
            found = Execution(text).explore(STATES_MAX)
            ours = {key_of(show(network, state)) for state in explored.states}
            assert ours == {key_of(shown) for shown in found.states.values()}, text
            assert (explored.transitions, len(explored.failures)) == (len(found.steps), found.failures), (
                text
            )
