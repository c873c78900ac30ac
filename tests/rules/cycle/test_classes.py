"""Judging by class and by memory gives what judging every pod on every node gives (design section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st
from rules.cycle.build import PERCENTAGE, Json, World, bare, gang, gpu, node, queue, whole

from scheduling import cycle
from scheduling.cycle import session
from scheduling.cycle.memo import Memo
from scheduling.state.model import CycleResult

SPREAD = {"volcano.sh/vgpu-podgroup-policy": "spread"}
ASKED: tuple[Json, ...] = (
    gpu(1000, 10),
    gpu(4000, 50),
    gpu(2000, 0, 2),
    gpu(None, None, **{PERCENTAGE: "30"}),
    gpu(3000, 100),
    {"cpu": "9"},
    {"cpu": "1", "memory": "1Gi", **gpu(500, 5)},
)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Every pod is judged on every node."""
    before = session.plain_cluster
    session.plain_cluster = lambda _: False
    try:
        yield
    finally:
        session.plain_cluster = before


def plainly(world: World) -> CycleResult:
    with one_by_one():
        return cycle.run(world.model, world.time_ms)


def workload(kind: int, number: int, asked: Json) -> list[Json]:
    name = f"w{number}"
    if kind == 0:
        return bare(name, asked, age=number, queue_name="q" if number % 3 == 0 else "default")
    if kind == 1:
        return bare(name, asked, age=number, spec={"nodeSelector": {"disk": "ssd"}})
    if kind == 2:
        return bare(name, asked, age=number, annotations=SPREAD)
    return gang(name, kind, asked, max(kind - 1, 1), age=number)


nodes = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([2000, 4000, 8192]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
)
works = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(range(len(ASKED)))), min_size=1, max_size=8)


@settings(max_examples=25)
@given(nodes=nodes, works=works, ends=st.lists(st.integers(0, 30), max_size=4))
def test_a_class_says_what_its_pods_would_hear(
    nodes: list[tuple[int, int, bool, bool]], works: list[tuple[int, int]], ends: list[int]
) -> None:
    """The same results one by one, by class, and by class with the memory of the cycles before."""
    world = World(queue("q", capability={"volcano.sh/vgpu-memory": "5000"}))
    for i, (cards, memory, ssd, cordoned) in enumerate(nodes):
        labels = {"disk": "ssd"} if ssd else {}
        world.see(node(f"n{i}", cards, memory, labels=labels, spec={"unschedulable": cordoned}))
    memo = Memo()
    for number, (kind, asked) in enumerate(works):
        world.see(workload(kind, number, ASKED[asked]))
        by_class = cycle.run(world.model, world.time_ms)
        assert by_class == plainly(world)
        assert whole(world.model, cycle.run(world.model, world.time_ms, memo)) == whole(world.model, by_class)
        if number % 2:
            world.settle()
    for place in ends:
        bound = sorted(uid for uid, entry in world.model.pods.items() if entry.pod.node)
        if bound:
            world.gone(world.objects["Pod", bound[place % len(bound)]])
        expected = plainly(world)
        assert whole(world.model, cycle.run(world.model, world.time_ms, memo)) == whole(world.model, expected)
        world.step()
    world.settle()


def test_a_changed_node_is_judged_again() -> None:
    """The memory follows registration, labels and taints."""
    world = World(node("a", memory=500), gang("g", 1, gpu(1000)))
    memo = Memo()
    assert cycle.run(world.model, world.time_ms, memo).gangs == []
    world.see(node("a", memory=2000))
    assert [gang_.group for gang_ in cycle.run(world.model, world.time_ms, memo).gangs] == ["lab/g"]
    world.gone(world.objects["Node", "uid-node-a"])
    assert cycle.run(world.model, world.time_ms, memo).gangs == []


def test_a_pod_with_rules_about_others_ends_judging_by_class() -> None:
    """Its anti-affinity keeps plain pods away from the moment that it is placed."""
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
    }
    labels = {"kubernetes.io/hostname": "a"}
    world = World(node("a", labels=labels), bare("loner", gpu(), spec=apart))
    world.see(bare("plain", gpu(), age=5, labels={"app": "x"}))
    world.settle()
    assert world.nodes_of("loner", "plain") == ["a", ""]
    assert "didn't satisfy existing pods anti-affinity rules" in world.said("plain").message


def test_other_roles_of_another_class_reuse_the_failure() -> None:
    """scheduling/AL-21, AL-7: a role that failed is skipped, whatever its next pod asks for"""
    world = World(node(memory=1000), gang("g", 2, gpu(2000), 1))
    small = world.objects["Pod", "uid-pod-g-worker-1"]
    small["spec"]["containers"][0]["resources"] = {"limits": gpu(500), "requests": gpu(500)}
    world.see(small, node(memory=1000, cards=2))
    assert plainly(world) == cycle.run(world.model, world.time_ms)
