"""The names and texts of the systems that Holdfast grew out of, as thin spellings of the rest of it.

Nothing else in the package may import this room, and it must not define behavior of its own.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.compat.agent_builder import AgentBuilder as AgentBuilder
    from holdfast.compat.agent_responses import AgentResponse as AgentResponse
    from holdfast.compat.agent_responses import (
        ReRegistrationAgentResponse as ReRegistrationAgentResponse,
    )
    from holdfast.compat.ai_call import CallOptions as CallOptions
    from holdfast.compat.ai_call import RetryConfig as RetryConfig
    from holdfast.compat.ai_call import (
        async_retry_ai_call_with_parsing as async_retry_ai_call_with_parsing,
    )
    from holdfast.compat.ai_call import (
        async_retry_rereg_ai_call_with_parsing as async_retry_rereg_ai_call_with_parsing,
    )
    from holdfast.compat.ai_call import get_retry_config as get_retry_config
    from holdfast.compat.ai_call import retry_ai_call_with_parsing as retry_ai_call_with_parsing
    from holdfast.compat.ai_call import (
        retry_rereg_ai_call_with_parsing as retry_rereg_ai_call_with_parsing,
    )
    from holdfast.compat.error_handling_config import SEED_002_CACHE as SEED_002_CACHE
    from holdfast.compat.error_handling_config import SEED_003_BREAKER as SEED_003_BREAKER
    from holdfast.compat.error_handling_config import SEED_003_CACHE as SEED_003_CACHE
    from holdfast.compat.error_handling_config import ErrorHandling as ErrorHandling
    from holdfast.compat.error_handling_config import cache_key as cache_key
    from holdfast.compat.function_retry_executor import (
        FunctionInvocationError as FunctionInvocationError,
    )
    from holdfast.compat.function_retry_executor import (
        FunctionRetryExecutor as FunctionRetryExecutor,
    )
    from holdfast.compat.function_retry_executor import FunctionTimeoutError as FunctionTimeoutError

_HOME: dict[str, str] = {
    "AgentBuilder": "holdfast.compat.agent_builder",
    "AgentResponse": "holdfast.compat.agent_responses",
    "CallOptions": "holdfast.compat.ai_call",
    "ErrorHandling": "holdfast.compat.error_handling_config",
    "FunctionInvocationError": "holdfast.compat.function_retry_executor",
    "FunctionRetryExecutor": "holdfast.compat.function_retry_executor",
    "FunctionTimeoutError": "holdfast.compat.function_retry_executor",
    "ReRegistrationAgentResponse": "holdfast.compat.agent_responses",
    "RetryConfig": "holdfast.compat.ai_call",
    "SEED_002_CACHE": "holdfast.compat.error_handling_config",
    "SEED_003_BREAKER": "holdfast.compat.error_handling_config",
    "SEED_003_CACHE": "holdfast.compat.error_handling_config",
    "async_retry_ai_call_with_parsing": "holdfast.compat.ai_call",
    "async_retry_rereg_ai_call_with_parsing": "holdfast.compat.ai_call",
    "cache_key": "holdfast.compat.error_handling_config",
    "get_retry_config": "holdfast.compat.ai_call",
    "retry_ai_call_with_parsing": "holdfast.compat.ai_call",
    "retry_rereg_ai_call_with_parsing": "holdfast.compat.ai_call",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
