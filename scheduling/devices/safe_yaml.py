"""YAML from strangers: plain data or a clear refusal, whatever the text (devices/N-15).

The text is walked as events first, which needs no recursion and builds nothing. What is too long, too deep, or would
become too large once its aliases are followed is refused there; only then is it constructed.
"""

from __future__ import annotations

from typing import Any

import yaml

LONGEST = 256 * 1024  # characters; the whole of a ConfigMap may have 1 MiB, a usual file has some thousand
_DEEPEST = 48
_LARGEST = 100_000  # nodes, every alias counted with all that it stands for
#: What PyYAML's constructors let through besides their own error, on scalars that only look like their tag.
_FAULTS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class YamlError(ValueError):
    """The text is not YAML that we read; the message says why in one line."""


def load(text: str) -> Any:
    """Return the plain data of one YAML document; YamlError if there is none to be had."""
    if len(text) > LONGEST:
        raise YamlError(f"{len(text)} characters; at most {LONGEST} are read")
    try:
        _measure(text)
        return yaml.load(text, Loader=yaml.SafeLoader)
    except YamlError:
        raise
    except _FAULTS as fault:
        raise YamlError(" ".join(str(fault).split())[:300] or type(fault).__name__) from None


def _measure(text: str) -> None:
    """Refuse what would be too deep or too large; counts the nodes behind each anchor."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    size = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise YamlError(f"alias *{anchor} before the end of its anchor")
            size += sizes[anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, size))
            size += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = open_nodes.pop()
            if name is not None:
                sizes[name] = size - before
        elif isinstance(event, yaml.ScalarEvent):
            size += 1
            if anchor is not None:
                sizes[anchor] = 1
        if len(open_nodes) > _DEEPEST:
            raise YamlError(f"nested deeper than {_DEEPEST} levels")
        if size > _LARGEST:
            raise YamlError(f"more than {_LARGEST} values once aliases are followed")
