"""What the simulation finds once all is at rest: work that was left half done, status that is out of date."""

from __future__ import annotations

from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB
from services.simulator.chaos import agreeing, healing
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player

RUN = [Step("run all", 1)] * 12


def played(*steps: Step) -> Player:
    player = Player(draw(2, 1).only(steps))
    for step in steps:
        player._step(step)
    healing.heal(player.world)
    assert healing.settle(player.world, player.judge) == ""
    player.world.inspect()
    return player


def test_a_job_lacks_a_pod_that_is_gone_and_not_one_whose_name_is_still_taken() -> None:
    """The controller cannot make a pod while another one of its name is on its way out, on a node that is away."""
    world = played(Step("job", 7), *RUN).world
    (job,) = world.store.items(VOLCANO_JOB)
    pods = [item for item in world.store.items(POD) if item["metadata"]["name"].startswith(job["metadata"]["name"])]
    assert pods
    assert [*agreeing.left_undone(world)] == []
    name = pods[0]["metadata"]["name"]
    another = {**pods[0]["metadata"], "uid": "of-a-job-before", "ownerReferences": [], "deletionTimestamp": "now"}
    world.store.remove(POD, "lab", name)
    assert [text for text in agreeing.left_undone(world) if name in text and "lacks" in text]
    (group,) = world.store.items(POD_GROUP)
    world.store.write(POD_GROUP, {**group, "status": {"phase": "Pending"}})
    assert not [text for text in agreeing.left_undone(world) if "lacks" in text], "none is made then (scheduling/J-5)"
    world.store.write(POD_GROUP, group)
    world.store.put(POD, {**pods[0], "metadata": another})
    assert not [text for text in agreeing.left_undone(world) if "lacks" in text]


def test_a_status_that_went_back_is_found() -> None:
    world = played(*[Step("pod", number) for number in range(7, 11)], *RUN).world
    assert [*agreeing.shown_otherwise(world)] == []
    for queue in world.store.items(QUEUE):
        if (queue.get("status") or {}).get("allocated"):
            world.store.replace(QUEUE, {**queue, "status": {}})
    assert [text for text in agreeing.shown_otherwise(world) if "is shown as holding" in text]
