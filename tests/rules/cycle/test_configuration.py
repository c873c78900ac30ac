"""What the configuration decides, and waiting without one (scheduling/CFG-5, CFG-6a, CFG-8)."""

from __future__ import annotations

from dataclasses import replace

from rules.cycle.build import World, bare, gang, gpu, group, node, pod, thing

from scheduling.config.parse import builtin_default, default_config

BAD = thing(
    "ConfigMap",
    "volcano-scheduler-configmap",
    "volcano-system",
    data={"volcano-scheduler.conf": "actions: enqueue, allocat\ntiers:\n- plugins:\n  - name: gang\n"},
)


def test_without_a_valid_configuration_everybody_waits_and_says_why() -> None:
    """scheduling/CFG-6a"""
    world = World(node(), BAD, bare("p", gpu()), pod("stray", "", gpu()), group("g", status={"phase": "Inqueue"}))
    world.settle()
    text = "no valid scheduler configuration: failed to find Action allocat"
    for name in ("p", "stray"):
        assert (world.on(name), world.said(name).reason, world.said(name).message) == ("", "Unschedulable", text)
    assert world.book("g").phase == "Inqueue"
    good = {
        **BAD,
        "data": {"volcano-scheduler.conf": BAD["data"]["volcano-scheduler.conf"].replace("allocat", "allocate")},
    }
    world.see(good)
    world.settle()
    assert world.said("p").message != text


def test_actions_run_in_their_order() -> None:
    """scheduling/CFG-5: allocate before enqueue sees nobody in the first cycle"""
    config = replace(default_config(), actions=("allocate", "enqueue"))
    world = World(node(), gang("g", 1, gpu()), config=config)
    assert world.run().gangs == []
    world.step()
    assert world.run().gangs != []


def test_the_builtin_default_of_the_reference() -> None:
    """scheduling/CFG-4, devices/R-1a: no vGPU, so a vGPU pod waits; a CPU pod runs"""
    world = World(node(), config=builtin_default())
    world.fold.model.env = replace(world.model.env, args=replace(world.model.env.args, vgpu=False))
    world.see(bare("p", gpu()), bare("c", {"cpu": "1"}))
    world.settle()
    assert world.nodes_of("p", "c") == ["", "a"]
    assert world.said("p").message == "vGPU sharing is off: deviceshare.VGPUEnable is not true"


def test_equal_states_give_equal_results_whatever_the_order_of_their_events() -> None:
    """scheduling section 9 number 15"""
    items = [node("b"), node("a"), bare("p", gpu(), age=1), gang("g", 3, gpu(3000), 2, age=1), bare("q", gpu(7000))]
    one, two = World(*items), World(*reversed(items))
    assert one.run() == two.run()
