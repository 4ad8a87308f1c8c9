"""Everything the command does, from Python.

    import veristream as vs

    for result in vs.check("models/philosophers/philosophers.net"):
        ...

Each function takes a path or a Network. What is slow to import is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from veristream.errors import EnvironmentFailure, ModelError
from veristream.expected import FILE_NAME, Reproduction, compare, find_known
from veristream.ir.network import Network
from veristream.ir.property import DeadlockFree, Fairness, Property
from veristream.search.limits import Limits, Report, silent
from veristream.source import Source, read_source
from veristream.verdict import Result, Trace

if TYPE_CHECKING:
    from veristream.export.tla import Exported

Model = Network | str | Path
Constants = Mapping[str, int]
Engine = Literal["local"]
Reader = Callable[[Source, Constants], Network]


def load(path: str | Path, constants: Constants | None = None) -> Network:
    """The model in a file, verified; `constants` replace those it declares. Raises ModelError."""
    path = Path(path)
    read = _reader(path)
    source = _read(path)
    if not source.text.strip():
        raise ModelError(f"{path} is empty", hint="a model begins with `network NAME`")
    try:
        network = read(source, constants or {})
    except RecursionError as error:
        raise ModelError(f"{path} is nested too deeply to be read") from error
    return network


def check(
    model: Model,
    properties: Sequence[str] = (),
    *,
    constants: Constants | None = None,
    fairness: Fairness | None = None,
    limits: Limits | None = None,
    report: Report = silent,
) -> tuple[Result, ...]:
    """The verdicts of the named properties, or of all; `fairness` replaces what they say themselves."""
    network = _network(model, constants)
    chosen = choose(network, properties)
    if fairness is not None:
        chosen = tuple(replace(one, fairness=fairness) for one in chosen)
    from veristream.search import local  # Numba takes a third of a second to import

    return local.check(network, chosen, limits or Limits(), report)


def simulate(model: Model, *, constants: Constants | None = None, seed: int = 0, steps: int = 50) -> Trace:
    """A random run of at most `steps` steps; the same seed gives the same run."""
    network = _network(model, constants)
    from veristream.search.simulate import simulate as run

    return run(network, seed, steps)


def export_promela(model: Model, *, constants: Constants | None = None) -> str:
    """The model as Promela, for SPIN."""
    network = _network(model, constants)
    from veristream.export.promela import to_promela

    return to_promela(network)


def export_tla(model: Model, *, module: str, constants: Constants | None = None) -> Exported:
    """The model as a TLA+ module of the given name and its TLC configuration."""
    network = _network(model, constants)
    from veristream.export.tla import to_tla

    return to_tla(network, module)


def reproduce(
    names: Sequence[str] = (),
    *,
    models: str | Path | None = None,
    limits: Limits | None = None,
    report: Report = silent,
) -> tuple[Reproduction, ...]:
    """Every known model, or those named, with our verdicts beside the expected ones."""
    folder = find_models() if models is None else Path(models)
    return tuple(
        Reproduction(
            known,
            tuple(
                compare(expectation, result)
                for expectation, result in zip(
                    known.expectations,
                    check(
                        known.path,
                        [one.property for one in known.expectations],
                        constants=known.constants,
                        limits=limits,
                        report=report,
                    ),
                    strict=True,
                )
            ),
        )
        for known in find_known(folder, names)
    )


def find_models() -> Path:
    """`models` here, or else the one beside the source checkout that this package runs from."""
    for folder in (Path("models"), Path(__file__).resolve().parents[2] / "models"):
        if any(folder.glob(f"*/{FILE_NAME}")):
            return folder
    raise ModelError(
        "no folder `models` with known models here",
        hint=f"say --models FOLDER; each folder in it has a model and its {FILE_NAME}",
    )


def choose(network: Network, names: Sequence[str]) -> tuple[Property, ...]:
    """The named properties in that order, or all; a model that states none is asked for deadlocks."""
    if not names:
        return network.properties or (Property("deadlockfree", DeadlockFree()),)
    known = {one.name: one for one in network.properties}
    for name in names:
        if name not in known:
            raise ModelError(f"the model has no property called {name}", network.span, _guess(name, known))
    return tuple(known[name] for name in dict.fromkeys(names))


def _guess(name: str, known: Mapping[str, Property]) -> str:
    if not known:
        return "it states no property at all"
    close = get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]}? " if close else ""
    return f"{question}its properties are {', '.join(known)}"


def _network(model: Model, constants: Constants | None) -> Network:
    if not isinstance(model, Network):
        return load(model, constants)
    if constants:
        raise ModelError("a Network has its constants already", hint="give them to load")
    return model


def _reader(path: Path) -> Reader:
    readers: dict[str, Callable[[], Reader]] = {".net": _net_reader, ".py": _actions_reader}
    if path.suffix not in readers:
        suffix = f"ends in {path.suffix}" if path.suffix else "has no suffix"
        raise ModelError(
            f"{path} {suffix}, and no language is known by that",
            hint=f"models end in {', '.join(readers)}",
        )
    return readers[path.suffix]()


def _actions_reader() -> Reader:
    from veristream.languages.actions.lower import read_model

    return read_model


def _net_reader() -> Reader:
    from veristream.ir.read import read_network

    return read_network


def _read(path: Path) -> Source:
    try:
        return read_source(path)
    except FileNotFoundError as error:
        raise ModelError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise ModelError(f"{path} is a folder, not a model") from error
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{path} is not text: byte {error.start} is not UTF-8", hint="save the model as UTF-8"
        ) from error
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(f"{path} cannot be read: {error}") from error
