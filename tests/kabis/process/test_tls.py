"""`[tls]` in `kabis.toml`: which files it names for whom, and its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.wire.certified import Certified, found
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.process.settings import Settings, load_settings, parse_settings
from veristream.kabis.process.tls import read_tls
from veristream.kabis.wire.tls import Tls
from veristream.source import Source


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    made = found(tmp_path)
    (tmp_path / "ca.pem").write_text("# d'une autorité\n" + made.ca, encoding="utf-8")
    return made


def write(folder: Path, text: str) -> Settings:
    (folder / "kabis.toml").write_text(text, encoding="utf-8")
    return load_settings(folder / "kabis.toml")


def test_it_is_off_without_a_ca(tmp_path: Path) -> None:
    assert read_tls(write(tmp_path, ""), tmp_path) is None
    assert read_tls(write(tmp_path, ""), tmp_path, "storage-1") is None


@pytest.mark.usefixtures("certified")
def test_a_clients_folder_needs_only_the_ca(tmp_path: Path) -> None:
    tls = read_tls(write(tmp_path, '[tls]\nca = "ca.pem"\n'), tmp_path)
    assert tls is not None
    assert tls.ca == (tmp_path / "ca.pem").read_text(encoding="utf-8").replace("é", "")
    assert (tls.certificate, tls.key, tls.client_ca) == (None, None, "")


def test_parties_and_clients_with_certificates(tmp_path: Path, certified: Certified) -> None:
    certified.certify("storage-1/tls")
    certified.certify("elsewhere")
    certified.certify("mine")
    settings = write(
        tmp_path,
        '[tls]\nca = "ca.pem"\ncertificate = "mine/certificate.pem"\nkey = "mine/key.pem"\n'
        'client_ca = "ca.pem"\n[parties.storage-2]\ntls_certificate = "elsewhere/certificate.pem"\n'
        f'tls_key = "{tmp_path}/elsewhere/key.pem"\n',
    )
    one, two, mine = (read_tls(settings, tmp_path, name) for name in ("storage-1", "storage-2", None))
    ca = (tmp_path / "ca.pem").read_text(encoding="ascii", errors="ignore")
    home = tmp_path.resolve()
    assert one == Tls(ca, home / "storage-1/tls/certificate.pem", home / "storage-1/tls/key.pem", ca)
    assert two == Tls(ca, home / "elsewhere/certificate.pem", home / "elsewhere/key.pem", ca)
    assert mine == Tls(ca, home / "mine/certificate.pem", home / "mine/key.pem")


def test_files_that_cannot_be_used(tmp_path: Path, certified: Certified) -> None:
    settings = write(tmp_path, '[tls]\nca = "ca.pem"\n')
    with pytest.raises(ModelError, match=r"/storage-1/tls/certificate\.pem is missing, which TLS needs"):
        read_tls(settings, tmp_path, "storage-1")
    tls = certified.certify("storage-1/tls")
    assert tls.key
    tls.key.chmod(0o644)
    with pytest.raises(ModelError, match="others may read"):
        read_tls(settings, tmp_path, "storage-1")
    tls.key.chmod(0o600)
    assert read_tls(settings, tmp_path, "storage-1") is not None
    (tmp_path / "ca.pem").write_text("nothing in PEM")
    with pytest.raises(ModelError, match=r"`ca` under \[tls\] has no certificate"):
        read_tls(settings, tmp_path)
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(EnvironmentFailure, match=r"cannot read .*ca\.pem") as caught:
        read_tls(settings, tmp_path)
    assert caught.value.hint == "it is `ca` under [tls] in kabis.toml"


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        ('[tls]\nclient_ca = "ca.pem"\n', "`client_ca` without `ca`", 2),
        ('[tls]\ncertificate = "a"\nkey = "b"\n', "`certificate` without `ca`", 2),
        ('[tls]\nca = "ca.pem"\ncertificate = "a"\n', "`certificate` without `key`", 3),
        ('[tls]\nca = "ca.pem"\nkey = "a"\n', "`key` without `certificate`", 3),
        ('[parties.a]\ntls_certificate = "a"\ntls_key = "b"\n', "`tls_certificate` without `ca`", 2),
        ('[parties.a]\ntls_key = "b"\n', "`tls_key` without `tls_certificate`", 2),
        ("[tls]\nca = true\n", "`ca` is a text in quotes, not True", 2),
        ('[tls]\ncertifcate = "a"\n', "unknown key `certifcate`", 2),
    ],
)
def test_what_would_leave_tls_off_or_half_on_is_a_mistake(text: str, told: str, line: int) -> None:
    with pytest.raises(ModelError) as caught:
        parse_settings(Source("kabis.toml", text))
    assert caught.value.message == told
    assert caught.value.span.place.startswith(f"kabis.toml:{line}:")
