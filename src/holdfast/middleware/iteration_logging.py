"""Logs a line before and a line after each iteration.

INFO: the start, and the end with the time. DEBUG: the numbers of messages and tools. TRACE (level 5):
the beginning of the instructions. It must never log messages, replies or results.
"""

from __future__ import annotations

import logging

from holdfast.core.argument_checks import check_arguments
from holdfast.middleware.hook_contexts import AfterReply, BeforeIteration, RunFacts
from holdfast.middleware.hooks import Middleware

TRACE = 5
"""Below DEBUG."""

_PREVIEW = 200


class IterationLogging(Middleware):
    """Logs each iteration.

    Args:
        logger: the logger; `holdfast.iterations` by default.
    """

    @check_arguments
    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("holdfast.iterations")

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When the logger may log something."""
        del facts
        level = logging.INFO if hook == "before_iteration" else logging.WARNING
        return self.logger.isEnabledFor(level)

    async def before_iteration(self, context: BeforeIteration) -> None:
        """Log the start."""
        log = self.logger
        log.info("🔄 Iteration %d starting - Agent: %s", context.iteration, context.agent)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("Messages: %d - Tools: %d", len(context.messages), len(context.tools))
            log.log(TRACE, "Instructions: %.*s", _PREVIEW, context.instructions)

    async def after_reply(self, context: AfterReply) -> None:
        """Log the end."""
        log, milliseconds = self.logger, round(context.seconds * 1000)
        if context.reply is None:
            name = type(context.exception).__name__
            log.warning("❌ Iteration %d failed in %dms: %s", context.iteration, milliseconds, name)
            return
        log.info(
            "✅ Iteration %d completed in %dms - Tool calls: %d",
            context.iteration,
            milliseconds,
            len(context.reply.calls),
        )
        if context.is_final_iteration:
            log.info("🏁 Final iteration detected - Agent will respond to user")
