"""The known models that come with Veristream: every one is listed, and a copy of it is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import veristream as vs
from veristream import known
from veristream.expected import read_known

ROOT = Path(__file__).resolve().parents[2]
INCLUDING = {"kafka_intruder": 1, "kafka_kerberos": 4, "kafka_secured": 3}
"""Folders with how many files of other folders they include."""


def test_every_folder_is_listed_with_what_it_is_about() -> None:
    folders = vs.list_models()
    assert [one.name for one in folders] == sorted(
        path.parent.name for path in (ROOT / "models").glob("*/expected.toml")
    )
    for folder in folders:
        assert folder.about and folder.paper
        assert len(folder.about) <= 100
        assert folder.models == read_known(ROOT / "models" / folder.name)
        others = [path for path in folder.files if path.parts[0] != folder.name]
        assert len(others) == INCLUDING.get(folder.name, 0)


def test_a_copy_of_all_can_be_read(tmp_path: Path) -> None:
    copied = vs.copy_models(to=tmp_path)
    assert copied.kept == ()
    assert len(set(copied.written)) == len(copied.written)
    for folder in vs.list_models(models=tmp_path):
        for path in {model.path for model in folder.models}:
            assert vs.load_all(path)


def test_a_copy_of_one_has_what_it_includes(tmp_path: Path) -> None:
    copied = vs.copy_models(["kafka_secured"], to=tmp_path / "new" / "place")
    relative = sorted(str(path.relative_to(tmp_path)) for path in copied.written)
    assert relative == [
        "new/place/kafka_secured/expected.toml",
        "new/place/kafka_secured/kafka_secured.csp",
        "new/place/library/crypto.csp",
        "new/place/library/intruder_crypto.csp",
        "new/place/library/kerberos.csp",
    ]
    assert vs.load_all(tmp_path / "new/place/kafka_secured/kafka_secured.csp")


def test_the_name_of_a_model_stands_for_its_folder(tmp_path: Path) -> None:
    (folder,) = vs.list_models(["nsq_shared_channel", "nsq"])
    assert folder.name == "nsq"
    assert len(folder.models) == 7
    vs.copy_models(["nsq_shared_channel"], to=tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["expected.toml", "nsq", "nsq.csp"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    vs.copy_models(["kafka_secured"], to=tmp_path)
    again = vs.copy_models(["kafka_secured", "peterson"], to=tmp_path)
    assert [path.name for path in again.written] == ["expected.toml", "peterson.net"]
    assert len(again.kept) == 5
    mine = tmp_path / "library" / "crypto.csp"
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(vs.ModelError, match=r"library/crypto\.csp exists and differs") as caught:
        vs.copy_models(["alternating_bit", "kafka_kerberos"], to=tmp_path)
    assert "nothing was copied" in caught.value.hint
    assert mine.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "alternating_bit").exists()
    assert not (tmp_path / "kafka_kerberos").exists()


def test_compiled_python_is_not_copied(tmp_path: Path) -> None:
    """An installer compiles the models that are Python files."""
    shutil.copytree(ROOT / "models" / "kafka_transactions", tmp_path / "from" / "kafka_transactions")
    compiled = tmp_path / "from" / "kafka_transactions" / "__pycache__" / "init_pid.pyc"
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(b"")
    copied = vs.copy_models(to=tmp_path / "to", models=tmp_path / "from")
    assert {path.suffix for path in copied.written} == {".py", ".toml"}


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(vs.EnvironmentFailure, match=r"cannot write .*Not a directory"):
        vs.copy_models(["peterson"], to=tmp_path / "file")


def test_files_that_include_each_other_are_copied_once(tmp_path: Path) -> None:
    folder = tmp_path / "from" / "round"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "models" / "peterson" / "expected.toml", folder)
    (folder / "a.csp").write_text('#include "../other/b.csp"\n', encoding="utf-8")
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "b.csp").write_text(' #include "../round/a.csp";\n', encoding="utf-8")
    (listed,) = vs.list_models(models=folder.parent)
    assert [str(path) for path in listed.files] == ["round/a.csp", "round/expected.toml", "other/b.csp"]
    (folder / "a.csp").write_text('#include "../../elsewhere.csp"\n', encoding="utf-8")
    with pytest.raises(vs.ModelError, match="which is outside "):
        vs.list_models(models=folder.parent)


def test_models_of_the_package_come_before_those_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "lib" / "veristream"
    monkeypatch.setattr(known, "_PACKAGE", package)
    with pytest.raises(vs.EnvironmentFailure, match="known models are missing"):
        known.find_shipped()
    shutil.copytree(ROOT / "models" / "peterson", tmp_path / "site" / "models" / "peterson")
    assert known.find_shipped() == tmp_path / "site" / "models"
    shutil.copytree(ROOT / "models" / "peterson", package / "models" / "peterson")
    assert known.find_shipped() == package / "models"
    monkeypatch.chdir(tmp_path)
    assert known.find_models() == package / "models"
    monkeypatch.chdir(tmp_path / "site")
    assert known.find_models() == Path("models")
