"""Pytest attaches its log handlers to the root logger alone.

Six times per test it looks at every logger for those that do not propagate to the root. With torch
and the vendors' clients there are 700, which takes 0.2 ms per test, and all of them propagate.
"""

import logging

from _pytest.logging import catching_logs


def attach_to_the_root_alone() -> None:
    """Let every logger propagate, so that the root's handlers get all messages."""
    for logger in logging.getLogger().manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True
    setattr(catching_logs, "__enter__", _attach)  # noqa: B010  it is not ours


def _attach(catching: catching_logs[logging.Handler]) -> logging.Handler:
    root = logging.getLogger()
    root.addHandler(catching.handler)
    catching.attached_loggers.append(root)
    if catching.level is not None:
        catching.handler.setLevel(catching.level)
        catching.orig_level = root.level
        root.setLevel(min(root.level, catching.level))
    return catching.handler
