"""The Python API: everything that the command does.

    import veristream as vs

    for result in vs.check("models/philosophers/philosophers.net"):
        ...

Each function takes a path or a Network. A file may define several models, each a Network; `load_all`
returns them all. Slow imports are deferred until they are needed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.chosen import find_named
from veristream.ir.network import Network, all_properties
from veristream.ir.property import DeadlockFree, Fairness, LeadsTo, Property, Rejected, Temporal
from veristream.languages.registry import Constants, find_language
from veristream.search.limits import Limits, Order, Report, silent
from veristream.search.limits import SparkOptions as SparkOptions
from veristream.source import NOWHERE, Source, Span, read_source
from veristream.verdict import Result, Trace, word

if TYPE_CHECKING:
    from veristream.expected import KnownModel, KnownRun, Reproduction
    from veristream.export.tla import Exported
    from veristream.history.audited import Audit

Model = Network | Sequence[Network] | str | Path
Search = Callable[[Network, Sequence[Property], Limits, Report], tuple[Result, ...]]


def load(path: str | Path, constants: Constants | None = None, process: str | None = None) -> Network:
    """Returns the first model in a file, or the one called `process`; see `load_all`."""
    networks = load_all(path, constants)
    if process is None:
        return networks[0]
    known = {network.name: network for network in networks}
    if process not in known:
        raise ModelError(
            f"{path} has no assertion about a process called {process}",
            hint=f"it has assertions about {', '.join(known)}",
        )
    return known[process]


def load_all(
    path: str | Path,
    constants: Constants | None = None,
    properties: Sequence[str] = (),
    queries: str | Path | None = None,
    stack_max: int | None = None,
) -> tuple[Network, ...]:
    """Returns the models in a file, verified; `constants` override those it declares. Raises ModelError.

    With `properties`, a language may leave out models and properties that are not among those named. With
    `queries`, a model of UPPAAL has the queries of that file instead of its own. With `stack_max`, so many
    processes of CSP# may wait behind a `;` at once.
    """
    path = Path(path)
    language = find_language(path)
    source = _read(path)
    if not source.text.strip():
        raise ModelError(f"{path} is empty", hint=language.beginning)
    try:
        with _collecting_nothing():
            if stack_max is not None and language.stacked is None:
                raise ModelError(f"{path} has no stacks", hint="only models in CSP# take --max-stack")
            if queries is None and stack_max is not None and language.stacked is not None:
                return language.stacked(source, constants or {}, properties, stack_max)
            if queries is None:
                return language.read(source, constants or {}, properties)
            if language.ask is None:
                raise ModelError(
                    f"{path} cannot have the properties of another file",
                    hint="only models of UPPAAL are checked with --queries",
                )
            return language.ask(source, constants or {}, _read(Path(queries), "a file of queries"))
    except RecursionError as error:
        raise ModelError(f"{path} is nested too deeply") from error


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Suspends the garbage collector: models are large and have no cycles, so it would search in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check(
    model: Model,
    properties: Sequence[str] = (),
    *,
    constants: Constants | None = None,
    fairness: Fairness | None = None,
    limits: Limits | None = None,
    report: Report = silent,
    spark: SparkOptions | None = None,
) -> tuple[Result, ...]:
    """Returns the results for the named properties, or for all; `fairness` overrides what they declare.

    With `spark`, the search runs on a Spark cluster.
    """
    networks = _networks(model, constants, properties)
    chosen = choose(networks, properties)  # report a wrong name before looking for a cluster
    if (
        any(chosen.values())
        and limits is not None
        and (limits.order is not Order.BREADTH or limits.hash_bits is not None)
    ):
        _check_limits(networks, chosen, limits, spark)
    if spark is not None and spark.checkpoint is not None:
        _claim(spark.checkpoint, networks, chosen, fairness, limits or Limits())
    return _check(_engine(spark), networks, properties, fairness, limits, report)


def check_specification(
    path: str | Path,
    properties: Sequence[str] = (),
    *,
    config: str | Path | None = None,
    constants: Constants | None = None,
    limits: Limits | None = None,
    report: Report = silent,
) -> tuple[Result, ...]:
    """Returns the results for the named properties of a specification in TLA+, or for all that its
    configuration names; without `config`, that is the file of the same name that ends in .cfg.

    `constants` override what the configuration says. Raises ModelError.
    """
    from veristream.languages.tla.read.config import Config, read_config
    from veristream.languages.tla.specification import load_specification
    from veristream.languages.tla.system import TlaSystem
    from veristream.search.direct.explore import check_system, kinds_of

    path = Path(path)
    source = _read(path)
    beside = path.with_suffix(".cfg")
    chosen = Path(config) if config is not None else beside if beside.is_file() else None
    read = Config() if chosen is None else read_config(_read(chosen, "a configuration"))
    with _deep_recursion():
        system = TlaSystem(load_specification(source, read, path.parent, constants or {}))
        known = list(kinds_of(system))
        names = find_named(properties, known, Span(source, 0, 0)) if properties else known
        return check_system(system, names, limits or Limits(), report)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Lets recursive definitions go deep, and says so if they do not end."""
    import sys

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000))
    try:
        yield
    except RecursionError as error:
        hint = "a recursive definition does not end, or goes too deep"
        raise ModelError("the specification is nested too deeply", hint=hint) from error
    finally:
        sys.setrecursionlimit(before)


def _check_limits(
    networks: Sequence[Network],
    chosen: Mapping[str, Sequence[Property]],
    limits: Limits,
    spark: SparkOptions | None,
) -> None:
    """Raises ModelError if no search can go depth-first, or keep hashes, and that is asked for."""
    from veristream.search.engine import check_hashing, check_order

    if spark is not None and limits.order is Order.DEPTH:
        raise ModelError(
            "a depth-first search runs on this machine only",
            hint="add --engine local, or search breadth-first without --order depth",
        )
    if spark is not None and limits.hash_bits is not None:
        raise ModelError(
            "a search with hash compaction runs on this machine only",
            hint="add --engine local, or remove --hash-compact",
        )
    asked = [(network, one) for network in networks for one in chosen[network.name]]
    check_hashing(asked, limits)
    check_order(asked, limits)


def _claim(
    folder: str,
    networks: Sequence[Network],
    chosen: Mapping[str, Sequence[Property]],
    fairness: Fairness | None,
    limits: Limits,
) -> None:
    """Reserves the checkpoint folder for this check; raises ModelError if it belongs to another."""
    from hashlib import sha256

    from veristream.ir.text.printer import print_network
    from veristream.search.shared.assignment import only_with
    from veristream.search.shared.checkpoint import claim_folder

    asked = {network.name: [_under(one, fairness) for one in chosen[network.name]] for network in networks}
    texts = [print_network(only_with(network, asked[network.name])) for network in networks]
    claim_folder(folder, sha256("\n".join([*texts, str(limits.symmetry)]).encode()).hexdigest())


def _check(
    search: Search,
    networks: Sequence[Network],
    properties: Sequence[str],
    fairness: Fairness | None,
    limits: Limits | None,
    report: Report,
) -> tuple[Result, ...]:
    chosen = choose(networks, properties)
    results: dict[str, Result] = {}
    for network in networks:
        mine = [_under(one, fairness) for one in chosen[network.name]]
        if mine:
            found = search(network, mine, limits or Limits(), report)
            results.update((result.property, _remarked(result, network)) for result in found)
    order = _order(networks, properties, chosen)
    wrong = {one.name: one for network in networks for one in network.rejected}
    return tuple(_refused(wrong[name]) if name in wrong else results[name] for name in order)


def _refused(one: Rejected) -> Result:
    from veristream.search.engine import refused

    return refused(one.name, one.kind, ModelError(one.message, one.span, one.hint))


def _engine(spark: SparkOptions | None) -> Search:
    """Returns the function that checks the properties of a network."""
    if spark is None:
        from veristream.search import engine as local

        return local.check
    from veristream.search.spark import engine as cluster
    from veristream.spark import open_session

    elastic = spark.exchange == "shuffle"
    return cluster.engine(lambda: open_session(spark.master, "veristream", elastic), spark)


def simulate(model: Model, *, constants: Constants | None = None, seed: int = 0, steps: int = 50) -> Trace:
    """Returns a random run of at most `steps` steps; the same seed returns the same run."""
    network = _network(model, constants)
    from veristream.search.simulate import simulate as run

    return run(network, seed, steps)


def follow(run: KnownRun, networks: Sequence[Network], report: Report = silent) -> Trace:
    """Returns the trace of a run that `expected.toml` lists; `networks` are the models of its file."""
    if run.goal is None:
        trace = simulate(networks[0], seed=run.seed, steps=run.steps)
    else:
        (result,) = check(networks, [run.goal], report=report)
        if result.verdict.trace is None:
            found = f"{result.property} has no trace to draw: {word(result.verdict)}"
            reason = f", {result.verdict.reason}" if result.verdict.reason else ""
            raise ModelError(
                f"{run.title}: {found}{reason}", hint="choose a `reachable` property that holds"
            )
        trace = result.verdict.trace
    _find_lanes(run, trace)
    return trace


def _find_lanes(run: KnownRun, trace: Trace) -> None:
    """Raises ModelError if a process that has a lane takes no step in the trace."""
    from veristream.report.messages import movers

    moving = dict.fromkeys(mover for step in trace.steps for mover in movers(step))
    for lane in run.lanes:
        if lane not in moving:
            raise ModelError(
                f"{run.title}: {lane} takes no step in the trace", hint=f"choose from {', '.join(moving)}"
            )


def export_promela(model: Model, *, constants: Constants | None = None) -> str:
    """Translates the model to Promela, for SPIN."""
    network = _network(model, constants)
    from veristream.export.promela import to_promela

    return to_promela(network)


def export_tla(model: Model, *, module: str, constants: Constants | None = None) -> Exported:
    """Translates the model to a TLA+ module of the given name and its TLC configuration."""
    network = _network(model, constants)
    from veristream.export.tla import to_tla

    return to_tla(network, module)


def audit(
    path: str | Path,
    *,
    properties: Sequence[str] = (),
    master: str | None = None,
    timeline: bool = False,
    logs: Sequence[str | Path] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Returns what a recorded history says of the named properties, or of all; raises ModelError.

    With `master`, the work is done on that Spark cluster. With `timeline`, messages are counted over time.
    With `logs`, dumps of Kafka brokers' logs, it says why messages are lost. `tell` is called with the
    current step.
    """
    from veristream.history.job.run import Options, audit_folder
    from veristream.history.properties import Property as Checked

    known = {str(one): one for one in Checked}
    asked = find_named(properties, known, NOWHERE, "an audit") if properties else list(known)
    options = Options(master, timeline, logs=tuple(map(Path, logs)))
    return audit_folder(Path(path), [known[name] for name in asked], options, tell, str(path))


def reproduce(
    names: Sequence[str] = (),
    *,
    models: str | Path | None = None,
    limits: Limits | None = None,
    report: Report = silent,
    spark: SparkOptions | None = None,
) -> tuple[Reproduction, ...]:
    """Checks every known model, or those named, and compares our verdicts with the expected ones.

    With `spark`, all of them share one Spark session.
    """
    from veristream.expected import find_known
    from veristream.known import find_models

    folder = find_models() if models is None else Path(models)
    known_models = find_known(folder, names)
    search = _engine(spark)
    return tuple(_reproduce(search, known, limits, report) for known in known_models)


def _reproduce(search: Search, known: KnownModel, limits: Limits | None, report: Report) -> Reproduction:
    from veristream.expected import Reproduction, compare

    names = [one.property for one in known.expectations]
    networks = _networks(known.path, known.constants, names)
    results = _check(search, networks, names, None, limits, report)
    pairs = zip(known.expectations, results, strict=True)
    return Reproduction(known, tuple(compare(expectation, result) for expectation, result in pairs))


def choose(networks: Sequence[Network], names: Sequence[str]) -> dict[str, list[Property]]:
    """Returns the named properties, or all, by network; deadlock freedom if the model states none."""
    known = _names(networks)
    if not names:
        if not known:
            return {network.name: [Property("deadlockfree", DeadlockFree())] for network in networks}
        return {network.name: list(network.properties) for network in networks}
    wanted = set(find_named(names, known, networks[0].span))
    return {network.name: [one for one in network.properties if one.name in wanted] for network in networks}


def _names(networks: Sequence[Network]) -> list[str]:
    """Returns the names of all properties, also of rejected ones, in the order of the models."""
    return list(dict.fromkeys(one.name for network in networks for one in all_properties(network)))


def _under(property_: Property, fairness: Fairness | None) -> Property:
    """Restricts a temporal property to fair runs; other properties are returned unchanged."""
    if fairness is None or not isinstance(property_.claim, Temporal | LeadsTo):
        return property_
    return replace(property_, fairness=fairness)


def _remarked(result: Result, network: Network) -> Result:
    """Adds the network's remark to the reason of the result."""
    reason = "; ".join(part for part in (result.verdict.reason, network.remark) if part)
    return replace(result, verdict=replace(result.verdict, reason=reason))


def _order(
    networks: Sequence[Network], names: Sequence[str], chosen: Mapping[str, Sequence[Property]]
) -> list[str]:
    """Returns the chosen properties' names, in the order of `names` or else of the models."""
    known = _names(networks)
    if names:
        return find_named(names, known, networks[0].span)
    return known or [one.name for network in networks for one in chosen[network.name]]


def _network(model: Model, constants: Constants | None) -> Network:
    return _networks(model, constants)[0]


def _networks(
    model: Model, constants: Constants | None, properties: Sequence[str] = ()
) -> Sequence[Network]:
    if isinstance(model, str | Path):
        return load_all(model, constants, properties)
    if constants:
        raise ModelError("a loaded Network cannot take other constants", hint="pass them to load")
    return (model,) if isinstance(model, Network) else model


def _read(path: Path, what: str = "a model") -> Source:
    try:
        return read_source(path)
    except FileNotFoundError as error:
        raise ModelError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise ModelError(f"{path} is a folder, not {what}") from error
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{path} is not text: byte {error.start} is not UTF-8", hint="save it as UTF-8"
        ) from error
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(f"cannot read {path}: {error}") from error
