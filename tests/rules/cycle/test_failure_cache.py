"""What a turn remembers of nodes that refused a role's task, beside what classes remember from cycle to cycle."""

from __future__ import annotations

from unittest import mock

from scheduling.cycle.finder import Finder

NOW, OLD = mock.Mock(name="now"), mock.Mock(name="old")


def finder() -> Finder:
    """A finder whose session knows two classes; the first said something of a node in an earlier cycle."""
    session = mock.Mock(names=["n1", "n2"], plain=True)
    session.argument.return_value = True
    session.config.action_arguments = {}
    session.memo.classes = {3: mock.Mock(), 4: mock.Mock()}
    session.memo.classes[3].refused.return_value = {"n2": OLD}
    return Finder(session, "allocate")


def task(kind: int) -> mock.Mock:
    return mock.Mock(role="worker", traits=mock.Mock(kind=kind))


def test_a_class_that_was_not_asked_in_this_turn_says_nothing_of_its_nodes() -> None:
    """scheduling/AL-21: the nominated node was looked at by itself; what was known of the others may be long past."""
    turn = finder()
    turn._failed = {"worker": {"n1": NOW}}
    assert not turn._by_class(task(3))
    assert turn._failed == {"worker": {"n1": NOW}}


def test_a_class_that_has_answered_hands_its_refusals_over_to_another_class_of_the_role() -> None:
    """scheduling/AL-21: the role's tasks share what failed."""
    turn = finder()
    assert turn._by_class(task(3))
    assert turn._by_class(task(3))
    assert not turn._by_class(task(4))
    assert turn._failed == {"worker": {"n2": OLD}}
    assert not turn._by_class(task(3))
