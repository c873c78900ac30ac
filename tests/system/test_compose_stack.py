"""The whole Compose stack on a real engine: it comes up confined, plays lab 8 under kills, and leaves nothing behind.

Base images are made on this machine, the API server stands outside of the engine, as a user's cluster does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from parts import compose, local_images
from parts.engine import Engine
from parts.kube import KubeApiServer
from system.compose_stack import PROJECT, SERVICES, ComposeStack, ComposeView
from system.lab import PATIENCE_S, Lab, until
from system.real import prepare
from system.stack import ROOT, environment

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration

SCHEDULERS = (f"{PROJECT}-scheduler-1", f"{PROJECT}-scheduler-2")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine with the base images."""
    found = Engine()
    try:
        found.start()
        local_images.make(found)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def kube(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """A real API server where containers reach it, with what an administrator installs."""
    server = KubeApiServer(tmp_path_factory.mktemp("kube") / "server", engine.host)

    async def start() -> None:
        await server.start()
        api = await KubernetesApi.connect(kubeconfig_configuration(str(server.kubeconfig)))
        await prepare(api)
        await api.close()

    try:
        asyncio.run(start())
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def stack(engine: Engine, kube: KubeApiServer) -> Iterator[ComposeStack]:
    """The stack with two schedulers."""
    found = ComposeStack(engine, compose.command(), kube.kubeconfig)
    up = ("up", "--build", "--detach", "--wait", "--wait-timeout", "240", "--scale", "scheduler=2")
    if found.compose(*up, check=False).returncode:
        pytest.fail(f"{found.containers()}\n{found.compose('logs', '--tail', '30').stdout}")
    yield found
    found.compose("down", "--volumes")


async def test_the_whole_stack_is_healthy_and_has_one_image_of_ours(stack: ComposeStack) -> None:
    await all_healthy(stack)
    names = {f"{PROJECT}-{name}-1" for name in (*SERVICES, "kafka", "postgres")} | {*SCHEDULERS}
    assert {name: stack.inspect(name)["RestartCount"] for name in stack.containers()} == dict.fromkeys(names, 0)
    assert len({stack.inspect(name)["Image"] for name in stack.ours()}) == 1
    assert stack.engine.run("docker", "images", "--quiet", "--filter", "dangling=true").stdout == ""


def test_what_only_builds_or_tests_is_not_in_the_image(stack: ComposeStack) -> None:
    ask = "import importlib.metadata as m; print(*sorted(item.name.lower() for item in m.distributions()))"
    there = set(stack.within(SCHEDULERS[0], "python", "-c", ask).stdout.split())
    assert {"gpuledger", "aiokafka", "numpy", "pg8000"} <= there
    assert there.isdisjoint({"pip", "setuptools", "pytest", "mypy", "mypy-extensions", "hatchling", "grimp"})


def test_the_image_says_what_is_in_it(stack: ComposeStack) -> None:
    """Its bill of materials names each installed distribution with its version, and no other."""
    bill = json.loads(stack.within(SCHEDULERS[0], "cat", "/opt/gpuledger/sbom.cdx.json").stdout)
    ask = "import importlib.metadata as m; print(*(f'{item.name}=={item.version}' for item in m.distributions()))"
    there = stack.within(SCHEDULERS[0], "python", "-c", ask).stdout.split()
    named = [f"{item['name']}=={item['version']}" for item in bill["components"]]
    assert sorted(named) == sorted(there)
    assert [item["name"] for item in bill["components"] if not item.get("licenses")] == []


def test_every_process_of_ours_is_confined(stack: ComposeStack) -> None:
    for name in stack.ours():
        status = stack.within(name, "cat", "/proc/1/status").stdout
        said = dict(line.split(":\t", 1) for line in status.splitlines())
        assert said["Uid"].split() == ["10001"] * 4, name
        assert said["NoNewPrivs"] == "1", name
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            assert int(said[f"Cap{kind}"], 16) == 0, (name, kind)
        for path in ("/probe", "/opt/gpuledger/probe", "/etc/probe"):
            refused = stack.within(name, "touch", path, check=False)
            assert refused.returncode == 1, (name, path)
            assert "Read-only file system" in refused.stderr
        stack.within(name, "touch", "/tmp/probe")


def test_the_scheduler_reaches_the_log_alone(stack: ComposeStack, kube: KubeApiServer) -> None:
    """Its network leads nowhere else, and no secret is laid into it; the watcher shows that the probe works."""
    ask = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    host, port = kube.address.removeprefix("https://").split(":")

    def reaches(container: str, host: str, port: str) -> bool:
        return stack.within(container, "python", "-c", ask, host, port, check=False).returncode == 0

    assert reaches(f"{PROJECT}-watcher-1", host, port)
    assert reaches(SCHEDULERS[0], "kafka", "9092")
    assert not reaches(SCHEDULERS[0], host, port)
    assert not reaches(f"{PROJECT}-controller-1", "kafka", "9092")
    assert stack.within(f"{PROJECT}-watcher-1", "ls", "/run/secrets").stdout.split() == ["kubeconfig"]
    assert stack.within(SCHEDULERS[0], "ls", "/run/secrets", check=False).returncode == 2


async def test_the_lab_holds_while_containers_are_killed(stack: ComposeStack, kube: KubeApiServer) -> None:
    """Each scheduler is killed once, so the leading one is; the other or its restart goes on. Then the binder is."""
    victims = {1: SCHEDULERS[0], 2: f"{PROJECT}-binder-1", 3: SCHEDULERS[1]}

    async def kill(number: int, moment: str) -> None:
        if moment == "within" and number in victims:
            await asyncio.to_thread(stack.kill, victims[number])

    kubeconfig = str(kube.kubeconfig)
    agents = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/system/cluster_parts.py"), kubeconfig], cwd=ROOT, env=environment()
    )
    api = await KubernetesApi.connect(kubeconfig_configuration(kubeconfig))
    lab = Lab(ComposeView(api, stack), lambda: ["agents"] if agents.poll() is not None else [], kill)
    try:
        await lab.play()
    finally:
        agents.kill()
        agents.wait()
        await api.close()
    assert lab.failed == [], stack.compose("logs", "--tail", "40", *SERVICES).stdout
    assert [stack.inspect(name)["RestartCount"] for name in victims.values()] == [1, 1, 1]
    await all_healthy(stack)


async def test_nothing_was_bound_twice_and_the_audit_passes(stack: ComposeStack) -> None:
    outcomes = [json.loads(line)["data"] for line in _records(stack, "outcome")]
    bound = Counter(item["uid"] for item in outcomes if (item["verb"], item["result"]) == ("bind", "applied"))
    assert len(bound) >= 5, "the lab's pod and both of its gangs"
    assert max(bound.values()) == 1
    audit = stack.gpuledger("audit", "verify")
    assert "decided again and equal" in audit.stdout, audit.stdout


async def test_the_read_models_hold_every_decision(stack: ComposeStack) -> None:
    def followed() -> bool:
        return int(stack.query("SELECT count(*) FROM decisions")) == len(_records(stack, "batch"))

    assert await until(lambda: asyncio.to_thread(followed), PATIENCE_S)


def test_it_ends_in_good_order_and_leaves_nothing_behind(stack: ComposeStack) -> None:
    assert stack.left()
    stack.compose("stop")
    assert {name: stack.inspect(name)["State"]["ExitCode"] for name in stack.ours()} == dict.fromkeys(stack.ours(), 0)
    stack.compose("down", "--volumes")
    assert stack.left() == []


async def all_healthy(stack: ComposeStack) -> None:
    def look() -> bool:
        return set(stack.containers().values()) == {"healthy"}

    assert await until(lambda: asyncio.to_thread(look), PATIENCE_S), stack.containers()


def _records(stack: ComposeStack, kind: str) -> list[str]:
    return stack.gpuledger("log", "--type", kind, "-o", "json").stdout.splitlines()
