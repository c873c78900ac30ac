"""Fewer collections of cyclic garbage: a state of millions of objects, of which almost none are cyclic.

By default the collector looks at everything young after each 700 new objects, and at everything there is now and then:
nearly half of the time of reading a log. What was imported is left out for good, and the rest is looked at rarely.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 200_000


def collect_rarely() -> None:
    """Set this process up so; once, after its imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
