"""Middleware: the additions of a user to a run, as hooks that return decisions.

A middleware must never hold the state of a run; its memory is a fold over events. This package
must not depend on the runtime, which calls the hooks.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.printable import escape_invisible as escape_invisible
    from holdfast.middleware.chain import AnyMiddleware as AnyMiddleware
    from holdfast.middleware.continuation_permission import (
        ContinuationPermission as ContinuationPermission,
    )
    from holdfast.middleware.decisions import CallTools as CallTools
    from holdfast.middleware.decisions import Decision as Decision
    from holdfast.middleware.decisions import Deny as Deny
    from holdfast.middleware.decisions import Patch as Patch
    from holdfast.middleware.decisions import Replace as Replace
    from holdfast.middleware.decisions import Stop as Stop
    from holdfast.middleware.decisions import UseReply as UseReply
    from holdfast.middleware.error_handling import ErrorFormatting as ErrorFormatting
    from holdfast.middleware.error_handling import FunctionRetry as FunctionRetry
    from holdfast.middleware.error_handling import FunctionTimeout as FunctionTimeout
    from holdfast.middleware.error_handling import (
        error_handling_middlewares as error_handling_middlewares,
    )
    from holdfast.middleware.error_tracking import Detector as Detector
    from holdfast.middleware.error_tracking import ErrorTracking as ErrorTracking
    from holdfast.middleware.error_tracking import looks_like_error as looks_like_error
    from holdfast.middleware.guidance import Guidance as Guidance
    from holdfast.middleware.history_reduction import HistoryReduction as HistoryReduction
    from holdfast.middleware.hook_contexts import AfterIteration as AfterIteration
    from holdfast.middleware.hook_contexts import AfterReply as AfterReply
    from holdfast.middleware.hook_contexts import AfterTool as AfterTool
    from holdfast.middleware.hook_contexts import AfterTurn as AfterTurn
    from holdfast.middleware.hook_contexts import BeforeIteration as BeforeIteration
    from holdfast.middleware.hook_contexts import BeforeTool as BeforeTool
    from holdfast.middleware.hook_contexts import BeforeTools as BeforeTools
    from holdfast.middleware.hook_contexts import BeforeTurn as BeforeTurn
    from holdfast.middleware.hook_contexts import Folding as Folding
    from holdfast.middleware.hook_contexts import HookContext as HookContext
    from holdfast.middleware.hook_contexts import InstructionsContext as InstructionsContext
    from holdfast.middleware.hook_contexts import ModelCall as ModelCall
    from holdfast.middleware.hook_contexts import OnError as OnError
    from holdfast.middleware.hook_contexts import RunFacts as RunFacts
    from holdfast.middleware.hook_contexts import ToolUse as ToolUse
    from holdfast.middleware.hooks import Middleware as Middleware
    from holdfast.middleware.iteration_cache import IterationCache as IterationCache
    from holdfast.middleware.iteration_logging import IterationLogging as IterationLogging
    from holdfast.middleware.live import LiveFilter as LiveFilter
    from holdfast.middleware.permission_memory import PermissionMemory as PermissionMemory
    from holdfast.middleware.permission_rules import Rule as Rule
    from holdfast.middleware.permission_source import PermissionSource as PermissionSource
    from holdfast.middleware.permission_source import Ruling as Ruling
    from holdfast.middleware.pii_protection import PIIProtection as PIIProtection
    from holdfast.middleware.repetition_guard import RepetitionGuard as RepetitionGuard
    from holdfast.middleware.tool_permission import ToolPermission as ToolPermission
    from holdfast.middleware.total_error_threshold import TotalErrorThreshold as TotalErrorThreshold
    from holdfast.middleware.usage_limits import UsageLimits as UsageLimits

_HOME: dict[str, str] = {
    "AfterIteration": "holdfast.middleware.hook_contexts",
    "AfterReply": "holdfast.middleware.hook_contexts",
    "AfterTool": "holdfast.middleware.hook_contexts",
    "AfterTurn": "holdfast.middleware.hook_contexts",
    "AnyMiddleware": "holdfast.middleware.chain",
    "BeforeIteration": "holdfast.middleware.hook_contexts",
    "BeforeTool": "holdfast.middleware.hook_contexts",
    "BeforeTools": "holdfast.middleware.hook_contexts",
    "BeforeTurn": "holdfast.middleware.hook_contexts",
    "CallTools": "holdfast.middleware.decisions",
    "ContinuationPermission": "holdfast.middleware.continuation_permission",
    "Decision": "holdfast.middleware.decisions",
    "Deny": "holdfast.middleware.decisions",
    "Detector": "holdfast.middleware.error_tracking",
    "ErrorFormatting": "holdfast.middleware.error_handling",
    "ErrorTracking": "holdfast.middleware.error_tracking",
    "Folding": "holdfast.middleware.hook_contexts",
    "FunctionRetry": "holdfast.middleware.error_handling",
    "FunctionTimeout": "holdfast.middleware.error_handling",
    "Guidance": "holdfast.middleware.guidance",
    "HistoryReduction": "holdfast.middleware.history_reduction",
    "HookContext": "holdfast.middleware.hook_contexts",
    "InstructionsContext": "holdfast.middleware.hook_contexts",
    "IterationCache": "holdfast.middleware.iteration_cache",
    "IterationLogging": "holdfast.middleware.iteration_logging",
    "LiveFilter": "holdfast.middleware.live",
    "Middleware": "holdfast.middleware.hooks",
    "ModelCall": "holdfast.middleware.hook_contexts",
    "OnError": "holdfast.middleware.hook_contexts",
    "PIIProtection": "holdfast.middleware.pii_protection",
    "Patch": "holdfast.middleware.decisions",
    "PermissionMemory": "holdfast.middleware.permission_memory",
    "PermissionSource": "holdfast.middleware.permission_source",
    "RepetitionGuard": "holdfast.middleware.repetition_guard",
    "Replace": "holdfast.middleware.decisions",
    "Rule": "holdfast.middleware.permission_rules",
    "Ruling": "holdfast.middleware.permission_source",
    "RunFacts": "holdfast.middleware.hook_contexts",
    "Stop": "holdfast.middleware.decisions",
    "ToolPermission": "holdfast.middleware.tool_permission",
    "ToolUse": "holdfast.middleware.hook_contexts",
    "TotalErrorThreshold": "holdfast.middleware.total_error_threshold",
    "UsageLimits": "holdfast.middleware.usage_limits",
    "UseReply": "holdfast.middleware.decisions",
    "error_handling_middlewares": "holdfast.middleware.error_handling",
    "escape_invisible": "holdfast.core.printable",
    "looks_like_error": "holdfast.middleware.error_tracking",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
