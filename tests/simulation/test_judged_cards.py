"""How the simulation judges cards, and a queue's sum of them, whose registration changes between decisions.

The same goes for a node, and for whom a decision knew: a pod may end between two decisions, and run again by a restore.
What a pod does not ask for was not exceeded by its Binding: others may have come back, by a restore, onto its node.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.objects import Container
from services.simulator.chaos.inspecting import Decision
from services.simulator.chaos.judge import Judge, Seen
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player


def two_on_a_card() -> tuple[Judge, Seen, Decision, str, str]:
    """Return a judge, a pod, its decision, the decision of a pod beside it on a card, and that card."""
    steps = [*(Step("pod", number) for number in range(7, 11)), *[Step("run all", 1)] * 8]
    player = Player(draw(2, 1).only(steps))
    for step in player.plan.steps:
        player._step(step)
        player.judge.look()
    player.world.inspect()
    decisions = player.world.inspector.state.decisions
    pods = {seen.pod.uid: seen for seen in player.judge._seen.values() if seen.shares}
    names = {decision.member.uid: name for name, decision in decisions.items() if decision.member.uid in pods}
    first, second = [*pods][:2]
    (card,) = {share.uuid for uid in (first, second) for share in pods[uid].shares}
    for uid in [*pods][2:]:
        del player.judge._seen[uid]
    return player.judge, pods[first], decisions[names[first]], names[second], card


def with_shares(decision: Decision, uuid: str, shares: int, place: int) -> Decision:
    cards = {**decision.cards, uuid: replace(decision.cards[uuid], shares=shares)}
    return replace(decision, cards=cards, place=place)


def breaches(first_shares: int, other_shares: int, other_later: int) -> list[str]:
    """Two pods hold a card; the decision on the one that is bound last knew the first number of shares."""
    judge, fresh, decision, other, card = two_on_a_card()
    decisions = judge.world.inspector.state.decisions
    decisions[other] = with_shares(decisions[other], card, other_shares, decision.place + other_later)
    return [*judge._devices(fresh, with_shares(decision, card, first_shares, decision.place))]


def test_a_late_binding_is_judged_by_what_a_later_decision_on_its_card_knew() -> None:
    """One share was registered at the first decision, two at the second, whose Binding was made first."""
    assert breaches(1, 2, +1) == []


def test_a_card_that_is_given_twice_is_a_breach_whichever_binding_is_late() -> None:
    """The later decision knew of one share as well; or more was known only before the card shrank."""
    for later in (+1, -1):
        (text,) = breaches(1, 1, later)
        assert "shares 2 of 1" in text
    (text,) = breaches(1, 2, -1)
    assert "shares 2 of 1" in text


def queue_breaches(first_cards: int, other_cards: int, other_later: int) -> list[str]:
    """Two pods of a queue that may have one share; each decision knew no card, or the one that they are on."""
    judge, fresh, decision, other, card = two_on_a_card()
    there = frozenset({(fresh.pod.node, card)})

    def of_one_queue(item: Decision, cards: int, place: int) -> Decision:
        capability = {"volcano.sh/vgpu-number": "1"}
        registered = there if cards else frozenset[tuple[str, str]]()
        return replace(item, queue="default", capability=capability, registered=registered, place=place)

    decisions = judge.world.inspector.state.decisions
    decisions[other] = of_one_queue(decisions[other], other_cards, decision.place + other_later)
    return [*judge._queue(fresh, of_one_queue(decision, first_cards, decision.place))]


def test_a_late_binding_counts_in_its_queue_by_the_cards_that_a_later_decision_knew() -> None:
    """The card was lost before the second decision: what is on it does not count any more (devices/R-13)."""
    assert queue_breaches(1, 0, +1) == []
    assert queue_breaches(0, 1, +1) == []


def test_a_queue_that_is_given_too_much_is_a_breach_whichever_binding_is_late() -> None:
    for later in (+1, -1):
        (text,) = queue_breaches(1, 1, later)
        assert text.startswith("4: queue default: volcano.sh/vgpu-number 2 of 1 held")
    (text,) = queue_breaches(1, 0, -1)
    assert "2 of 1" in text


def node_breaches(asked: str) -> list[str]:
    """The other pods on the node hold more than its CPU; this one asks for so much."""
    judge, fresh, decision, *_ = two_on_a_card()
    for seen in judge._seen.values():
        requests = {"cpu": asked if seen is fresh else "2"}
        seen.pod = replace(seen.pod, containers=(Container("c", {}, requests),))
    return [*judge._node(fresh, replace(decision, allocatable={"cpu": "2", "pods": "9"}))]


def test_a_node_is_not_exceeded_by_who_asks_for_nothing_of_it() -> None:
    """Seed 80000184 (scheduling/F-8): a pod came back beside those that had taken its place, and a third one came."""
    assert node_breaches("0") == []
    (text,) = node_breaches("0.1")
    assert "cpu 4100 of 2000 requested" in text


def breaches_beside_one_that_came_back(of: str, later: int, later_knew: bool) -> list[str]:
    """A pod whose end was undone, which the late decision knew to run; two have room there, and three are there.

    ``later`` says whether the third one was decided on after the late one or before, ``later_knew`` whether that
    decision knew the pod that came back to run, too.
    """
    judge, fresh, decision, other, card = two_on_a_card()
    decisions, back = judge.world.inspector.state.decisions, "back"
    for seen in judge._seen.values():
        seen.pod = replace(seen.pod, containers=(Container("c", {}, {"cpu": "1"}),))
    judge._seen[back] = replace(fresh, pod=replace(fresh.pod, uid=back, annotations={}))
    judge._came_back.add(back)
    offered = {"cpu": "2" if of == "node" else "9", "pods": "9"}

    def two_have_room(item: Decision, knew: bool, place: int) -> Decision:
        item = replace(item, allocatable=offered, holding=frozenset({back} if knew else ()))
        return with_shares(item, card, 2 if of == "card" else 9, place)

    for seen in [*judge._seen.values()]:
        if seen.pod.uid not in (fresh.pod.uid, decisions[other].member.uid, back):
            del judge._seen[seen.pod.uid]
    decisions[other] = two_have_room(decisions[other], later_knew, decision.place + later)
    late = two_have_room(decision, True, decision.place)
    return [*judge._node(fresh, late), *judge._devices(fresh, late)]


@pytest.mark.parametrize(("of", "said"), [("node", "cpu 3000 of 2000 requested"), ("card", "shares 3 of 2 held")])
def test_a_late_binding_is_judged_by_whom_a_later_decision_knew(of: str, said: str) -> None:
    """The end of the pod was on the log when its place was given away, and the restore nobody had told of."""
    assert breaches_beside_one_that_came_back(of, +1, later_knew=False) == []
    for later, knew in ((+1, True), (-1, False), (-1, True)):
        (text,) = breaches_beside_one_that_came_back(of, later, knew)
        assert said in text


def test_a_slice_that_others_hold_twice_is_not_this_pods_breach() -> None:
    judge, fresh, decision, _, card = two_on_a_card()
    judge._seen["back"] = back = replace(fresh, pod=replace(fresh.pod, uid="back", annotations={}))
    beside = next(seen for seen in judge._seen.values() if seen is not fresh and seen.shares and seen is not back)
    for seen, suffix in ((fresh, "[g-0]"), (beside, "[g-1]"), (back, "[g-1]")):
        seen.shares = tuple(replace(share, suffix=suffix) for share in seen.shares)
    plenty = with_shares(decision, card, 9, decision.place)
    assert not any("slice" in text for text in judge._devices(fresh, plenty))
    assert any("a slice is held twice" in text for text in judge._devices(beside, plenty))


def test_a_queue_is_not_exceeded_by_who_holds_no_card() -> None:
    judge, fresh, decision, other, _ = two_on_a_card()
    judge._seen[other] = replace(fresh, pod=replace(fresh.pod, uid=other))
    of_queue = replace(decision, queue="default", capability={"volcano.sh/vgpu-number": "1"},
                       registered=frozenset((fresh.pod.node, share.uuid) for share in fresh.shares))  # fmt: skip
    assert list(judge._queue(fresh, of_queue))
    fresh.shares = ()
    assert list(judge._queue(fresh, of_queue)) == []
