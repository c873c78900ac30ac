"""Admission of the batch system's own kinds: defaults and refusals with the exact texts that users know.

One step of the API's front door (``admit``): the verb (``create``, ``update``, ``status``, ``delete``), the kind, the
new and the old form, and the cluster as it is. It returns the new form, completed, or raises ``Refused``. What enters a
cluster by another way is never judged here.
"""

from __future__ import annotations

from dataclasses import dataclass

from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cluster.admission import jobs, podgroups, pods, queues
from services.cluster.admission.lookup import Lister
from services.cluster.refusal import Refused


@dataclass(frozen=True)
class Admission:
    """The admission step. ``check_allocated_pods`` also refuses to delete a queue that holds pods (scheduling/Q-5)."""

    check_allocated_pods: bool = False

    def __call__(self, verb: str, kind: Kind, new: Json | None, old: Json | None, lister: Lister) -> Json | None:
        """Return the completed new form. Raises Refused."""
        if kind == VOLCANO_JOB:
            jobs.admit(verb, new, old, lister)
        elif kind == POD_GROUP:
            podgroups.admit(verb, new, old, lister)
        elif kind == QUEUE:
            queues.admit(verb, new, old, lister, check_allocated_pods=self.check_allocated_pods)
        elif kind == POD:
            pods.admit(verb, new, old, lister)
        return new


admit = Admission()


def admission_chain(*, check_allocated_pods: bool = False) -> list[Admission]:
    """Return the admission steps of an embedded cluster, in their order."""
    return [Admission(check_allocated_pods)]


__all__ = ["Admission", "Lister", "Refused", "admission_chain", "admit"]
