"""Logs each iteration in the lines of seed 002.

INFO: start and end with the time. DEBUG: how many messages and tools. TRACE (level 5): the first of
the instructions. It must never log what people, models or tools said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from holdfast.core.checks import check_instance
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.moments import AfterReply, BeforeIteration

TRACE = 5
"""Below DEBUG."""

_PREVIEW = 200


class IterationLogging(Middleware):
    """Logs each iteration.

    Args:
        logger: where to; the logger `holdfast.iterations` by default.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        check_instance("logger", logger, logging.Logger, logging.LoggerAdapter, optional=True)
        self.logger = logger or logging.getLogger("holdfast.iterations")

    def acts(self, hook: str) -> Callable[[Any], bool]:
        """When its lines are wanted."""
        if hook == "before_iteration":
            return lambda _moment: self.logger.isEnabledFor(logging.INFO)
        return self._tells_the_end

    def _tells_the_end(self, moment: AfterReply) -> bool:
        return self.logger.isEnabledFor(logging.WARNING if moment.reply is None else logging.INFO)

    async def before_iteration(self, moment: BeforeIteration) -> None:
        """Log the start."""
        log = self.logger
        log.info("🔄 Iteration %d starting - Agent: %s", moment.iteration, moment.agent)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("Messages: %d - Tools: %d", len(moment.messages), len(moment.tools))
            log.log(TRACE, "Instructions: %.*s", _PREVIEW, moment.instructions)

    async def after_reply(self, moment: AfterReply) -> None:
        """Log the end."""
        log, milliseconds = self.logger, round(moment.seconds * 1000)
        if moment.reply is None:
            name = type(moment.exception).__name__
            log.warning("❌ Iteration %d failed in %dms: %s", moment.iteration, milliseconds, name)
            return
        log.info(
            "✅ Iteration %d completed in %dms - Tool calls: %d",
            moment.iteration,
            milliseconds,
            len(moment.reply.calls),
        )
        if moment.is_final_iteration:
            log.info("🏁 Final iteration detected - Agent will respond to user")
