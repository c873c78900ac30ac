"""Print the installed packages that gpuledger does not need to run: what the image leaves out.

They are those that no chain of requirements leads to, read from what is installed, so no list has to be kept.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def main() -> None:
    needed: set[str] = set()
    waiting = [Requirement("gpuledger")]
    while waiting:
        wanted = waiting.pop()
        key = f"{canonicalize_name(wanted.name)}[{','.join(sorted(wanted.extras))}]"
        if key not in needed:
            needed.add(key)
            waiting += _required(distribution(wanted.name), wanted.extras)
    names = {name.partition("[")[0] for name in needed}
    print(*sorted({canonicalize_name(item.name) for item in distributions()} - names))


def _required(package: Distribution, extras: set[str]) -> list[Requirement]:
    """Return what a package needs here, with the extras that were asked for."""
    return [item for item in map(Requirement, package.requires or ()) if _applies(item, extras | {""})]


def _applies(item: Requirement, extras: set[str]) -> bool:
    return item.marker is None or any(item.marker.evaluate({"extra": extra}) for extra in extras)


if __name__ == "__main__":
    main()
