"""GPU exclusivity: devices/X-4 to X-12."""

from __future__ import annotations

from device_builders import World, card, container, env, holding, mig_card, mig_env, pod

from scheduling.devices.arguments import Rule
from scheduling.devices.exclusivity import exclusivity_map

NOT_ENOUGH = "not enough gpu fitted on this node"
TRAINING: Rule = (("workloadType", "training"),)
BATCH: Rule = (("priority", "high"), ("workloadType", "batch"))
TWO = card("GPU-0", 81920) + card("GPU-1", 81920)


def labelled(name: str, *containers: object, **labels: str) -> object:
    asked = {} if containers else {"number": 1, "memory": 1000}
    return pod(name, *containers, labels=labels, **asked)


def training(name: str) -> object:
    return labelled(name, workloadType="training")


def on(uuid: str) -> str:
    return f"{uuid},NVIDIA,1000,0:"


def world(**rest: object) -> World:
    return World(TWO, env(rules=(TRAINING, BATCH), **{"policy": "binpack", **rest}))


def test_the_example() -> None:
    """devices/X-1, X-5, X-8, X-11: the table of section 4.5"""
    node = world()
    assert node.place(training("p1")) == on("GPU-0")
    assert node.place(training("p2")) == on("GPU-1")
    assert node.place(training("p3")) == NOT_ENOUGH
    assert node.words(training("p3")) == ["exclusive-reserved", "exclusive-reserved"]
    assert node.place(labelled("p4", workloadType="serving")) == on("GPU-0")
    assert node.place(labelled("p5", workloadType="batch", priority="high")) == on("GPU-0")
    assert node.place(labelled("p6", workloadType="batch")) == on("GPU-0")
    node.drop("p1")
    assert node.place(training("p3")) == on("GPU-0")


def test_x4_the_audit_map() -> None:
    """devices/X-4"""
    node = world()
    node.place(training("p1"))
    node.place(labelled("p5", workloadType="batch", priority="high"))
    node.place(labelled("p6", workloadType="batch"))
    assert exclusivity_map(node.books) == [
        ("priority=high,workloadType=batch", "GPU-0", "uid-p5"),
        ("workloadType=training", "GPU-0", "uid-p1"),
    ]
    node.drop("p1")
    assert exclusivity_map(node.books) == [("priority=high,workloadType=batch", "GPU-0", "uid-p5")]


def test_x5_a_pod_of_several_rules_sees_the_union() -> None:
    """devices/X-5"""
    gold: Rule = (("tier", "gold"),)
    node = World(TWO, env(rules=(TRAINING, gold), policy="binpack"))
    node.place(training("t"))
    assert node.place(labelled("g", tier="gold")) == on("GPU-0")
    node.drop("g")
    node.place(labelled("fill", container(number=1, memory=80000)))
    assert node.place(labelled("g2", tier="gold")) == on("GPU-1")
    assert node.place(labelled("both", tier="gold", workloadType="training")) == NOT_ENOUGH


def test_x5_containers_of_one_pod_may_share() -> None:
    """devices/X-5"""
    pair = [container(number=1, memory=1000), container(number=1, memory=1000)]
    assert world().place(labelled("p", *pair, workloadType="training")) == on("GPU-0") + ";" + on("GPU-0")


def test_x6_mig_cards_are_never_reserved() -> None:
    """devices/X-6"""
    node = World(mig_card(), mig_env(rules=(TRAINING,)))
    assert node.place(training("a")) == "GPU-m[group1-0],NVIDIA,1000,0:"
    assert node.place(training("b")) == "GPU-m[group1-1],NVIDIA,1000,0:"
    assert exclusivity_map(node.books) == []


def test_x7_a_reserved_card_is_only_skipped() -> None:
    """devices/X-7: others see the card as it is, also after failed tries"""
    node = world()
    node.place(training("a"))
    before = node.books.cards
    assert node.place(labelled("two", container(number=2, memory=1), workloadType="training")) == NOT_ENOUGH
    assert node.books.cards == before
    assert node.place(labelled("free")) == on("GPU-0")


def test_x8_release_is_by_rule() -> None:
    """devices/X-8 (K-10): the last pod of the rule frees it, whoever else is left"""
    node = world()
    node.place(labelled("other", workloadType="serving"))
    node.place(training("a"))
    node.drop("a")
    assert node.place(training("b")) == on("GPU-0")


def test_x9_x10_a_new_rule_counts_for_pods_that_are_there() -> None:
    """devices/X-9, X-10: reserved until all of them are gone"""
    node = World(card("GPU-0"), env())
    node.place(training("a"))
    node.place(training("b"))
    node.env = env(rules=(TRAINING,))
    node.books = node.books.with_env(node.env)
    assert node.place(training("c")) == NOT_ENOUGH
    node.drop("a")
    assert node.place(training("c")) == NOT_ENOUGH
    node.drop("b")
    assert node.place(training("c")) == on("GPU-0")


def test_x3_rules_keep_their_reservations_wherever_they_stand() -> None:
    """devices/X-3 (K-8): a rule that moves in the list or a card that moves in the text keeps its state"""
    from device_builders import node as make_node

    node = world()
    node.place(training("a"))
    before = exclusivity_map(node.books)
    moved = node.books.with_env(env(rules=(BATCH, TRAINING), policy="binpack"))
    moved = moved.with_node(make_node(card("GPU-1", 81920) + card("GPU-0", 81920)))
    assert exclusivity_map(moved) == before


def test_x4_pods_of_other_schedulers_count() -> None:
    """devices/X-4, A-16"""
    node = world()
    node.see(holding("foreign", on("GPU-0"), labels={"workloadType": "training"}))
    assert node.place(training("a")) == on("GPU-1")


def test_x11_all_restrictions_together() -> None:
    """devices/X-11"""
    node = world(policy="spread")
    node.place(training("a"))
    lists = {"volcano.sh/vgpu-nouse-gpuuuid": "GPU-1"}
    item = pod("b", number=1, memory=1, labels={"workloadType": "training"}, annotations=lists)
    assert node.place(item) == NOT_ENOUGH
    assert sorted(node.words(item)) == ["exclusive-reserved", "uuid-filter"]
