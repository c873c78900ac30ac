"""The search for nodes (scheduling/AL-7, AL-17 to AL-21, Q-17a)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from scheduling.cycle.fitting import Candidate, Search, explained, judge, no_node
from scheduling.cycle.job import Task
from scheduling.cycle.session import Session
from scheduling.nodes.search import Search as Options
from scheduling.reasons.kinds import NoNode, QueueReason, Refused


class Finder:
    """Searches nodes for one job's turn, with the turn's failure cache (AL-21)."""

    def __init__(self, session: Session, action: str) -> None:
        self._session = session
        self._cached = session.argument(action, "predicateErrorCacheEnable", True)
        self._failed: dict[str, dict[str, Refused]] = {}
        self._classes: dict[str, int | None] = {}
        options = Options.of(session.config.action_arguments.get("allocate", {}))
        self._sampling, self._wanted = options.sampling, options.enough(len(session.names))

    def find(self, task: Task) -> Search:
        """Return where a task fits. A nominated node that still fits is the only one (AL-7)."""
        with self._session.stages.during("predicate"):
            return self._find(task)

    def _find(self, task: Task) -> Search:
        self._session.memo.searches += 1
        nominated = task.pod.nominated_node or task.book.nominated_node
        if nominated:
            self._note_nodes()
            found = self.only(task, nominated)
            if found.candidates:
                return found
        if self._by_class(task):
            return self._class(task)
        self._note_nodes()
        prepared = self._session.prepare(task)
        if prepared:
            nodes = len(self._session.names)
            return Search(reason=NoNode(nodes, {prepared: nodes}))
        return self._search(task, self._round(), self._wanted)

    def only(self, task: Task, node: str) -> Search:
        """Return whether a task fits one node."""
        view = self._session.views.get(node)
        if view is None or view.node is None or self._session.prepare(task):
            return Search()
        return self._search(task, iter([node]), 1)

    def _note_nodes(self) -> None:
        """Take down that what is found may depend on every node."""
        notes = self._session.notes
        if notes is not None:
            notes.lasting = notes.lasting and not self._sampling and self._session.timeless
            notes.nodes = self._session.nodes_at

    # --- one by one ---

    def _round(self) -> Iterator[str]:
        """Visit the nodes in name order; where only some are looked at, from where the last search ended (AL-18)."""
        names = self._session.names
        if not self._sampling:
            yield from names
            return
        start = self._session.search_start % len(names) if names else 0
        for index in range(len(names)):
            self._session.search_start = (start + index + 1) % len(names)
            yield names[(start + index) % len(names)]

    def _search(self, task: Task, names: Iterator[str], wanted: int) -> Search:
        found = Search()
        failures: dict[str, Refused] = {}
        refusal: QueueReason | None = None
        for name in names:
            answer = self._judge(task, name)
            if isinstance(answer, Refused):
                failures[name] = answer
                continue
            over = self._session.holds(task, answer.fit.charge) if answer.fit else None
            if over:
                refusal = refusal or over
                continue
            found.candidates.append(answer)
            if len(found.candidates) >= wanted:
                break
        if not found.candidates:
            found.reason = refusal or no_node(self._session, task, failures)
        return found

    def _judge(self, task: Task, name: str) -> Candidate | Refused:
        known = self._failed.get(task.role, {}).get(name) if task.role and self._cached else None
        if known is not None:
            return known
        answer = judge(self._session, task, self._session.views[name])
        if isinstance(answer, Refused) and task.role and self._cached:
            self._failed.setdefault(task.role, {})[name] = answer
        return answer

    # --- by class ---

    def _by_class(self, task: Task) -> bool:
        """Tell whether the class may answer: not where a role's earlier failures were those of another class."""
        if self._sampling or task.traits.kind is None or not self._session.plain:
            return False
        if not task.role or not self._cached:
            return True
        if task.role not in self._failed:
            self._classes.setdefault(task.role, task.traits.kind)
        # Only a class that has answered in this turn is up to date: of another one nothing is taken over.
        first = self._classes.get(task.role)
        if first == task.traits.kind and task.role not in self._failed:
            return True
        if first is not None:
            self._classes[task.role] = None
            known = self._session.memo.classes.get(first)
            self._failed.setdefault(task.role, {}).update(known.refused() if known else {})
        return False

    def _class(self, task: Task) -> Search:
        known = self._session.class_of(task)
        refusal: QueueReason | None = None
        with closing(known.best(self._session, task)) as candidates:
            for candidate in candidates:
                over = self._session.holds(task, candidate.fit.charge) if candidate.fit else None
                if not over:
                    self._note_nodes()
                    return Search([candidate])
                refusal = refusal or over
        if refusal:
            self._note_nodes()
            return Search(reason=refusal)
        nobody = explained(self._session, task, known.no_node(), known.refused)
        if self._session.notes is not None:
            assert task.traits.kind is not None, "who is found by class has one"
            self._session.notes.kinds[task.traits.kind] = task, nobody
        return Search(reason=nobody)
