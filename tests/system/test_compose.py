"""The Compose stack and its image: every file in them is held against what the program takes, without an engine.

The stack itself runs in ``test_compose_stack.py``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts import local_images
from parts.compose import command as compose_command
from system.stack import ROOT

from services.cli.main import _COMMANDS
from services.runtime.probe import healthy
from services.runtime.settings import load_settings

SERVICES = ("watcher", "scheduler", "binder", "controller")
GIVEN = {"POSTGRES_PASSWORD": "hunter2", "KUBECONFIG_FILE": "/etc/kubeconfig"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The Compose file with the variables that it demands."""
    text = (ROOT / "docker-compose.yml").read_text()

    def value(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(3)
        if found.group(2) == ":?":
            assert name in GIVEN, f"{name} is demanded"
        return GIVEN.get(name, default or "")

    loaded: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+)(:[?-])?([^}]*)\}", value, text))
    return loaded


def test_what_is_referred_to_is_there(compose: dict[str, Any]) -> None:
    names = compose["services"].keys()
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= names
        assert set(service["networks"]) <= compose["networks"].keys()
        assert set(service.get("secrets", [])) <= compose["secrets"].keys()
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= compose["volumes"].keys()
        assert "healthcheck" in service
        for wanted, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}, wanted


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_a_command_whose_settings_are_taken(
    compose: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = compose["services"][name]
    assert service["command"] == [name]
    assert name in _COMMANDS
    for key in [key for key in os.environ if key.startswith("GPULEDGER_")]:
        monkeypatch.delenv(key)
    for key, value in service["environment"].items():
        monkeypatch.setenv(key, value)
    settings = load_settings()
    known = {key.removeprefix("GPULEDGER_").lower().split("__")[0] for key in service["environment"]}
    read = {*type(settings).model_fields, "log_url"}  # the latter by the commands that look back
    assert known <= read, "a variable that no setting reads would be ignored in silence"
    assert (
        service["environment"]["GPULEDGER_LOG_URL"] == f"kafka://{settings.kafka.servers}/gpuledger.{settings.cluster}"
    )
    assert settings.log.home == "kafka"
    assert settings.kafka.servers.partition(":")[0] in compose["services"]
    assert f":{settings.http.port}/" in service["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_of_ours_runs_as_root_or_may_write(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["user"] == "10001:10001"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def test_only_who_needs_them_reaches_the_brokers_and_the_cluster(compose: dict[str, Any]) -> None:
    assert compose["networks"]["inner"]["internal"]
    reach = {name: set(service["networks"]) for name, service in compose["services"].items()}
    assert reach["scheduler"] == reach["kafka"] == reach["postgres"] == {"inner"}
    assert reach["watcher"] == reach["binder"] == {"inner", "outer"}
    assert not [name for name, service in compose["services"].items() if service.get("ports")]


def test_the_image_is_built_from_what_is_there_and_does_not_run_as_root() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    stages = [line for line in lines if line.startswith("FROM ")]
    assert len(stages) == 2
    last = lines[lines.index(stages[-1]) :]
    assert "USER 10001:10001" in last
    assert 'ENTRYPOINT ["gpuledger"]' in last
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            sources = line.split()[1:-1]
            assert set(sources) <= allowed, line
            assert all((ROOT / source).exists() for source in sources), line


def test_what_the_image_installs_is_whole(tmp_path: Path) -> None:
    """The wheel alone, without the checkout, has every command, the migrations and the health check."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    program = (
        "import sys; from services.cli.main import main; import services\n"
        "assert sys.path[0] in services.__file__, services.__file__\n"
        "sys.argv = ['gpuledger', *sys.argv[1:]]; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    for arguments, words in ((["--help"], "scheduler"), (["binder", "--show-config"], "bind_lanes: 32")):
        program_here = program.replace("sys.path[0]", repr(str(tmp_path / "site")))
        command = [sys.executable, "-c", program_here, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
    assert (tmp_path / "site" / "migrations" / "versions" / "v0001_first_tables.py").exists()
    assert (tmp_path / "site" / "services" / "runtime" / "probe.py").exists()


def test_the_health_check_says_no_where_nobody_answers() -> None:
    assert not healthy("http://127.0.0.1:1/healthz")
    assert not healthy("nonsense")


def test_compose_itself_takes_the_file() -> None:
    names = {name: f"local/{name.lower()}" for name in local_images.NAMES}
    command = [*compose_command(), "-f", str(ROOT / "docker-compose.yml"), "config", "--format", "json"]
    given = {**os.environ, **GIVEN, **names, "CLUSTER": "blue"}
    done = subprocess.run(command, env=given, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services["kafka"]["image"] == "local/kafka_image"
    assert services["postgres"]["image"] == "local/postgres_image"
    assert services["watcher"]["build"]["args"] == {"BASE": "local/python_image"}
    for name in SERVICES:
        assert services[name]["image"] == "gpuledger:local"
        assert services[name]["environment"]["GPULEDGER_LOG_URL"].endswith("/gpuledger.blue")


def test_one_service_builds_the_image_of_all(compose: dict[str, Any]) -> None:
    """With a build each, Compose builds and stores the same image four times over."""
    assert [name for name, service in compose["services"].items() if "build" in service] == ["watcher"]


def test_what_the_image_leaves_out_is_what_no_requirement_leads_to() -> None:
    """The image is made from the lock of development, so what only builds and tests must go; nothing else may."""
    command = [sys.executable, str(ROOT / "deploy" / "unneeded.py")]
    left_out = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed, development = (
        {re.split(r"[^\w-]", item)[0] for item in items}
        for items in (project["project"]["dependencies"], project["dependency-groups"]["dev"])
    )
    assert development | {"pip"} <= left_out
    assert left_out.isdisjoint(needed | {"gpuledger"})
