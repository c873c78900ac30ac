"""``gpuledger up`` is configured by file, environment and options, in this order; secrets are never shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from adapters.cluster.port import ApiUnknown
from events.canonical import Json
from events.kinds import Kind
from services.cli import up

PASSWORD = "hunter2"
app = typer.Typer()
app.command("up")(up.command)


def shown(*arguments: str, **environment: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["--show-config", *arguments], env={**environment})
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output
    found: dict[str, object] = yaml.safe_load(done.stdout)
    return found


def test_an_option_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "up.yaml"
    path.write_text("data: from-file\nport: 9001\nmanifests: [a.yaml]\n")
    found = shown("--config", str(path), "--data", "from-option", GPULEDGER_PORT="9002")
    assert found == {"data": "from-option", "database": "", "manifests": ["a.yaml"], "port": 9002}


def test_the_password_of_the_database_is_masked() -> None:
    found = shown(GPULEDGER_DATABASE=f"postgresql://me:{PASSWORD}@127.0.0.1/gpuledger")
    assert found["database"] == "**********"


def test_a_manifest_that_gets_no_answer_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    class Api:
        async def create(self, kind: Kind, item: Json) -> Json:
            if item["metadata"]["name"] == "bad":
                raise ApiUnknown("POST /api/v1/nodes: 500 Internal error occurred")
            return item

    class System:
        async def client(self) -> Api:
            return Api()

    items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("bad", "good")]
    asyncio.run(up._apply(System(), items))  # type: ignore[arg-type]  # only its client is asked for
    said = capsys.readouterr()
    assert said.err == "refused: POST /api/v1/nodes: 500 Internal error occurred\n"
    assert said.out == "applied Node good\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [("port: 70000", "port"), ("port: x", "'x'"), ("junk: 1", "junk"), ("- 1", "mapping"), ("a: [", "up.yaml")],
)
def test_a_bad_setting_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "up.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["--config", str(path)])
    assert done.exit_code == 2
    assert str(path) in done.stderr
    assert words in done.stderr
