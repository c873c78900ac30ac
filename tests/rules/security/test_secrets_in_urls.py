"""A secret that somebody puts into a URL, or would send in plain text, is refused and not shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration, server_configuration
from adapters.cluster.port import ApiUnknown
from adapters.database.engine import open_database
from adapters.database.errors import DatabaseError
from adapters.log import opening
from adapters.log.port import LogError
from services.cli import audit

SECRET = "planted-6f1c0d9e"


@pytest.mark.parametrize(
    ("url", "token"),
    [(f"http://u:{SECRET}@127.0.0.1:1", ""), (f"https://{SECRET}@k8s.example", ""), ("http://k8s.example", SECRET)],
)
async def test_an_api_server_is_not_reached_so(url: str, token: str) -> None:
    with pytest.raises(ApiUnknown, match=r"kubernetes\.server") as found:
        await KubernetesApi.connect(server_configuration(url, token))
    assert SECRET not in str(found.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1]:1", "https://k8s.example"])
async def test_on_loopback_or_by_tls_a_token_is_sent(url: str) -> None:
    api = await KubernetesApi.connect(server_configuration(url, SECRET))
    await api.close()


async def test_a_kubeconfig_that_cannot_be_used_is_said_to_be_so(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"users: [{{name: u, user: {{token: {SECRET}}}}}]\ncontexts: []\ncurrent-context: none\n")
    with pytest.raises(ApiUnknown, match="Expected object with name none") as found:
        await KubernetesApi.connect(kubeconfig_configuration(str(path)))
    assert SECRET not in str(found.value)


def test_no_log_is_named_so() -> None:
    with pytest.raises(LogError) as found:
        opening.parse(f"kafka://u:{SECRET}@127.0.0.1:9092/topic")
    assert SECRET not in str(found.value)


@pytest.mark.parametrize("rest", ["127.0.0.1:port/x", "[::1/x"])
def test_a_database_url_that_cannot_be_read_is_not_shown(rest: str) -> None:
    with pytest.raises(DatabaseError, match="database URL") as found:
        open_database(f"postgresql://u:{SECRET}@{rest}")
    assert SECRET not in str(found.value)


def test_the_audit_does_not_repeat_it(tmp_path: Path) -> None:
    app = typer.Typer()
    app.add_typer(audit.app, name="audit")
    for arguments in (
        ["--log", f"kafka://u:{SECRET}@127.0.0.1:1/x"],
        ["--kubernetes", f"http://u:{SECRET}@127.0.0.1:1"],
    ):
        result = CliRunner().invoke(app, ["audit", "verify", "--data", str(tmp_path), *arguments])
        assert result.exit_code == 2
        assert SECRET not in result.output
