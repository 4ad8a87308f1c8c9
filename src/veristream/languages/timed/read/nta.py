"""Reads UPPAAL's XML files, in any version of the document type."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import Node, children
from veristream.languages.timed import syntax
from veristream.languages.timed.read.declarations import read_declarations, read_parameters
from veristream.languages.timed.read.expressions import Scope
from veristream.languages.timed.read.labels import read_conditions, read_selects, read_sync, read_updates
from veristream.languages.timed.read.tokens import SKIPPED, Fragment
from veristream.languages.timed.read.tree import Start, parse
from veristream.languages.timed.read.world import World, both, read_world
from veristream.languages.timed.read.xml import Element

_NAME = re.compile(r"[^\W\d]\w*")
_EMPTY = re.compile(rf"(?:{SKIPPED})*", re.DOTALL)
_OF_LOCATIONS = {"invariant"}
_OF_EDGES = {"select", "guard", "synchronisation", "assignment"}
_IGNORED = {"exponentialrate", "probability", "comments", "testcode", "testcodeEnter", "testcodeExit"}


def read_nta(scope: Scope, root: Element) -> tuple[World, World]:
    """Reads the declarations and templates of a file, and separately the contents of `<system>`."""
    if root.tag != "nta":
        hint = "the root element must be `<nta>`"
        raise ModelError(
            f"this is not an UPPAAL model: the root element is `<{root.tag}>`", root.span, hint
        )
    world, system = World(), World()
    for part in root.all("declaration"):
        world = both(world, read_world(scope, part.text, "model"))
    for part in root.all("template"):
        world = both(world, World(templates=(_read_template(scope, part),)))
    for part in [*root.all("instantiation"), *root.all("system")]:
        system = both(system, read_world(scope, part.text, "model"))
    return world, _without_charts(root, system)


def _without_charts(root: Element, system: World) -> World:
    """Removes instances of live sequence charts; raises ModelError if the system line uses one."""
    named = [(part, part.first("name")) for part in root.all("lsc")]
    charts = {_read_name(name): part for part, name in named if name is not None}
    for one in system.instantiations:
        if one.template in charts:
            charts[one.name] = charts[one.template]
    for process in [one for _, line in system.lines for group in line for one in group]:
        if process.name in charts:
            hint = "write it as a template, or express it as a query"
            span = charts[process.name].span
            raise ModelError("live sequence charts, `<lsc>`, are not supported", span, hint)
    kept = tuple(one for one in system.instantiations if one.name not in charts)
    return replace(system, instantiations=kept)


def _read_template(scope: Scope, element: Element) -> syntax.Template:
    name, inner = element.first("name"), scope.inner()
    if name is None or not name.text.text.strip():
        raise ModelError("this template has no name", element.span, "add `<name>P</name>` to it")
    title, span = _read_name(name), name.text.stripped()
    parameters = _read_parameters(inner, element)
    declarations = _read_declarations(inner, element)
    locations = tuple(_read_location(inner, part) for part in element.all("location"))
    branchpoints = tuple(
        syntax.Branchpoint(_key(part), span=part.span) for part in element.all("branchpoint")
    )
    keys = _distinct([*locations, *branchpoints])
    if not locations:
        hint = "add a `<location>`, and an `<init>` that refers to it"
        raise ModelError(f"the template `{title}` has no locations", span, hint)
    initial = element.first("init")
    if initial is None:
        hint = f'add `<init ref="{locations[0].key}"/>` after the locations'
        raise ModelError(f"the template `{title}` has no initial location", span, hint)
    start = _reference(initial, keys)
    edges = tuple(_read_edge(inner, part, keys) for part in element.all("transition"))
    return syntax.Template(
        title, parameters, declarations, locations, branchpoints, start, edges, span=span
    )


def _read_parameters(scope: Scope, element: Element) -> tuple[syntax.Parameter, ...]:
    part = element.first("parameter")
    if part is None or _is_empty(part.text):
        return ()
    return read_parameters(scope, parse(part.text, "parameters"))


def _read_declarations(scope: Scope, element: Element) -> tuple[syntax.Declaration, ...]:
    found: tuple[syntax.Declaration, ...] = ()
    for part in element.all("declaration"):
        nodes = children(parse(part.text, "world"))
        for node in nodes:
            if node.data in {"instantiation", "system"}:
                hint = "move it to `<system>`"
                raise ModelError(
                    "instantiations and system lines are not allowed in a template", scope.span(node), hint
                )
        found += read_declarations(scope, nodes)
    return found


def _read_name(element: Element) -> str:
    name = element.text.text.strip()
    if not _NAME.fullmatch(name):
        hint = "names consist of letters, digits and `_`"
        raise ModelError(f"`{name}` is not a valid name", element.text.stripped(), hint)
    return name


def _is_empty(fragment: Fragment) -> bool:
    """Returns whether the text has only whitespace and comments."""
    return _EMPTY.fullmatch(fragment.text) is not None


# --- Locations and edges


def _key(element: Element) -> str:
    key = element.attributes.get("id", "")
    if not key:
        hint = f'write `<{element.tag} id="id0">`'
        raise ModelError(f"this {element.tag} has no id", element.span, hint)
    return key


def _distinct(places: list[syntax.Location | syntax.Branchpoint]) -> Collection[str]:
    """Returns the keys; raises ModelError for a duplicate."""
    keys: dict[str, None] = {}
    for place in places:
        if place.key in keys:
            hint = "change one of the ids"
            raise ModelError(f"two locations have the id `{place.key}`", place.span, hint)
        keys[place.key] = None
    return keys.keys()


def _reference(element: Element, keys: Collection[str]) -> str:
    key = element.attributes.get("ref", "")
    if key not in keys:
        hint = suggest(key, list(keys), "use the id of a location of the same template")
        raise ModelError(f"there is no location with the id `{key}`", element.span, hint)
    return key


def _read_location(scope: Scope, element: Element) -> syntax.Location:
    labels = _labels(element, _OF_LOCATIONS)
    invariant = labels.get("invariant")
    name = element.first("name")
    named = name is not None and bool(name.text.text.strip())
    kind: Literal["normal", "urgent", "committed"] = "normal"
    if element.first("committed") is not None:
        kind = "committed"
    elif element.first("urgent") is not None:
        kind = "urgent"
    return syntax.Location(
        _key(element),
        _read_name(name) if name is not None and named else "",
        None if invariant is None else read_conditions(scope, _parse(invariant, "conditions")),
        kind,
        span=name.text.stripped() if name is not None and named else element.span,
    )


def _read_edge(scope: Scope, element: Element, keys: Collection[str]) -> syntax.Edge:
    ends = []
    for tag in ("source", "target"):
        end = element.first(tag)
        if end is None:
            raise ModelError(f"this transition has no {tag}", element.span, f'write `<{tag} ref="id0"/>`')
        ends.append(_reference(end, keys))
    labels, inner = _labels(element, _OF_EDGES), scope.inner()
    select, guard = labels.get("select"), labels.get("guard")
    sync, update = labels.get("synchronisation"), labels.get("assignment")
    return syntax.Edge(
        ends[0],
        ends[1],
        () if select is None else read_selects(inner, _parse(select, "selects")),
        None if guard is None else read_conditions(inner, _parse(guard, "conditions")),
        None if sync is None else read_sync(inner, _parse(sync, "sync")),
        () if update is None else read_updates(inner, _parse(update, "updates")),
        span=element.span,
    )


def _parse(label: Element, start: Start) -> Node:
    return parse(label.text, start)


def _labels(element: Element, known: set[str]) -> dict[str, Element]:
    """Returns the labels that affect the model, by kind; raises ModelError for an unknown or second one."""
    found: dict[str, Element] = {}
    for label in element.all("label"):
        kind = label.attributes.get("kind", "")
        if kind in _IGNORED:
            continue
        if kind not in known:
            others = ", ".join(f"`{name}`" for name in sorted(known))
            message = f"unknown label kind `{kind}` for a {element.tag}"
            raise ModelError(message, label.span, suggest(kind, sorted(known), f"the kinds are {others}"))
        if kind in found and not _is_empty(label.text) and not _is_empty(found[kind].text):
            message = f"this {element.tag} has two labels of kind `{kind}`"
            raise ModelError(message, label.span, "merge them into one")
        if kind not in found or _is_empty(found[kind].text):
            found[kind] = label
    return found
