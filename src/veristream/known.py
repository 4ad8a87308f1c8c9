"""Finds, lists and copies the known models that come with Veristream.

A checkout has them in `models` at its root; an installed package contains them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.expected import FILE_NAME, KnownModel, find_known, read_about, read_known

_PACKAGE = Path(__file__).resolve().parent
_INCLUDE = re.compile(r'^[ \t]*#include[ \t]+"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KnownFolder:
    """A folder of known models: a paper, the models that go with it, and their files.

    `files` are all that a copy needs, relative to the folder's parent: its own first, then those of other
    folders that they include.
    """

    name: str
    about: str
    paper: str
    models: tuple[KnownModel, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """What `copy_models` did: the files that it wrote, and identical ones that already existed."""

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def find_shipped() -> Path:
    """Returns the folder of known models in this package or checkout; raises EnvironmentFailure."""
    for folder in (_PACKAGE / "models", _PACKAGE.parents[1] / "models"):
        if _has_models(folder):
            return folder
    raise EnvironmentFailure(
        f"the known models are missing from {_PACKAGE}",
        hint="reinstall veristream, or pass --models FOLDER",
    )


def find_models() -> Path:
    """Returns `./models` if it has known models, or else those that come with Veristream."""
    here = Path("models")
    return here if _has_models(here) else find_shipped()


def list_models(names: Sequence[str] = (), *, models: str | Path | None = None) -> tuple[KnownFolder, ...]:
    """Returns the folders of known models, or those named by folder or model; raises ModelError if a name
    is unknown."""
    root = find_shipped() if models is None else Path(models)
    folders = dict.fromkeys(model.path.relative_to(root).parts[0] for model in find_known(root, names))
    return tuple(_describe(root / folder) for folder in folders)


def copy_models(
    names: Sequence[str] = (), *, to: str | Path = ".", models: str | Path | None = None
) -> Copied:
    """Copies the folders of the named models, or all, into a folder, with the files that they include.

    Never overwrites: raises ModelError, before it writes anything, if an existing file differs. An existing
    file with the same content is kept.
    """
    root = find_shipped() if models is None else Path(models)
    files = dict.fromkeys(file for folder in list_models(names, models=root) for file in folder.files)
    targets = {root / file: Path(to) / file for file in files}
    try:
        return _copy(targets)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {error.filename or to}: {error.strerror}", hint="choose another folder"
        ) from error


def _copy(targets: dict[Path, Path]) -> Copied:
    kept = [target for source, target in targets.items() if target.exists() and _is_same(source, target)]
    for target in targets.values():
        if target.exists() and target not in kept:
            raise ModelError(
                f"{target} exists and differs from the file to copy",
                hint="choose another folder, or move the file away; nothing was copied",
            )
    written = {source: target for source, target in targets.items() if target not in kept}
    for source, target in written.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return Copied(tuple(written.values()), tuple(kept))


def _is_same(source: Path, target: Path) -> bool:
    return target.is_file() and source.read_bytes() == target.read_bytes()


def _has_models(folder: Path) -> bool:
    return any(folder.glob(f"*/{FILE_NAME}"))


def _describe(folder: Path) -> KnownFolder:
    own = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    root = folder.parent.resolve()
    included: dict[Path, None] = {}
    for path in own:
        _include(root / path.relative_to(folder.parent), root, included)
    files = dict.fromkeys(root / path.relative_to(folder.parent) for path in own) | included
    models = read_known(folder)
    relative = tuple(path.relative_to(root) for path in files)
    return KnownFolder(folder.name, read_about(folder), models[0].paper, models, relative)


def _include(path: Path, root: Path, found: dict[Path, None]) -> None:
    """Adds the files that a CSP# file includes, recursively."""
    if path.suffix != ".csp" or not path.is_file():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not text: byte {error.start} is not UTF-8") from error
    for name in _INCLUDE.findall(text):
        included = (path.parent / name.replace("\\", "/")).resolve()
        if not included.is_relative_to(root):
            raise ModelError(f"{path} includes {name}, which is outside {root}", hint="copy it by hand")
        if included not in found and included.is_file():
            found[included] = None
            _include(included, root, found)
