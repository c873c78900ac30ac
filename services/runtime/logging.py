"""Structured logs on standard error: one JSON object a line, or lines for people on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import structlog


def configure(
    level: str = "info", form: Literal["json", "console"] = "json", stream: TextIO | None = None, **bound: Any
) -> None:
    """Set up logging for this process; ``bound`` (service, cluster) stands in every line."""
    out = stream or sys.stderr
    threshold = getattr(logging, level.upper())
    render: Any = structlog.processors.JSONRenderer(sort_keys=True)
    if form == "console":
        render = structlog.dev.ConsoleRenderer(colors=out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        level=max(threshold, logging.WARNING), handlers=[_of_libraries(out, bound, shared, render)], force=True
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**bound)


def _without_what_was_sent(record: logging.LogRecord) -> bool:
    """Leave out what a request that is no HTTP said: the parser's error quotes it, tokens in headers and paths too."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__module__ == "aiohttp.http_exceptions":
        record.exc_info, record.msg = None, f"{record.msg}: {type(error).__name__}"
    return True


def _of_libraries(out: TextIO, bound: dict[str, Any], shared: list[Any], render: Any) -> logging.Handler:
    """Return what writes the lines of the libraries that we use, in the same form as ours, also from their threads."""
    handler = logging.StreamHandler(out)
    handler.addFilter(_without_what_was_sent)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[lambda _, __, event: {**bound, **event}, structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    return handler
