"""Strategies around one operation: retry, breaker, limiter, cache, timeout, fallback, hedge, budget.

Each strategy has a folder with the same files: `options` (the settings of a user), `decision` (pure
functions on explicit state; time and randomness are arguments) and `strategy` (the wrapper that
waits and calls). A file is absent where there is nothing to put into it. A strategy must never
read the real clock, draw a random number, or know a provider or a tool.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.limits import ReplyLimits as ReplyLimits
    from holdfast.resilience.breaker.decision import RejectedCall as RejectedCall
    from holdfast.resilience.breaker.decision import Ticket as Ticket
    from holdfast.resilience.breaker.options import BreakerOptions as BreakerOptions
    from holdfast.resilience.breaker.strategy import BreakerOpenError as BreakerOpenError
    from holdfast.resilience.breaker.strategy import BreakerSnapshot as BreakerSnapshot
    from holdfast.resilience.breaker.strategy import BreakerStrategy as BreakerStrategy
    from holdfast.resilience.breaker.strategy import CircuitBreaker as CircuitBreaker
    from holdfast.resilience.budget.options import BudgetOptions as BudgetOptions
    from holdfast.resilience.budget.retry_budget import RetryBudget as RetryBudget
    from holdfast.resilience.cache.options import CacheOptions as CacheOptions
    from holdfast.resilience.cache.strategy import Cache as Cache
    from holdfast.resilience.cache.strategy import Stats as Stats
    from holdfast.resilience.cache.strategy import Store as Store
    from holdfast.resilience.clock import Clock as Clock
    from holdfast.resilience.clock import Rng as Rng
    from holdfast.resilience.defaults import Resilience as Resilience
    from holdfast.resilience.endpoint_states import PROCESS as PROCESS
    from holdfast.resilience.endpoint_states import EndpointState as EndpointState
    from holdfast.resilience.endpoint_states import EndpointStates as EndpointStates
    from holdfast.resilience.fallback.options import FallbackTarget as FallbackTarget
    from holdfast.resilience.fallback.strategy import Fallback as Fallback
    from holdfast.resilience.hedge.options import HedgeOptions as HedgeOptions
    from holdfast.resilience.hedge.strategy import Hedge as Hedge
    from holdfast.resilience.hedge.strategy import Latencies as Latencies
    from holdfast.resilience.limiter.decision import Reservation as Reservation
    from holdfast.resilience.limiter.options import LimiterOptions as LimiterOptions
    from holdfast.resilience.limiter.strategy import LimiterError as LimiterError
    from holdfast.resilience.limiter.strategy import LimiterLoad as LimiterLoad
    from holdfast.resilience.limiter.strategy import LimiterStrategy as LimiterStrategy
    from holdfast.resilience.limiter.strategy import RateLimiter as RateLimiter
    from holdfast.resilience.metrics import CallMetrics as CallMetrics
    from holdfast.resilience.metrics import MetricsRecorder as MetricsRecorder
    from holdfast.resilience.metrics import MetricsSnapshot as MetricsSnapshot
    from holdfast.resilience.metrics import SessionRetries as SessionRetries
    from holdfast.resilience.pipeline import CallContext as CallContext
    from holdfast.resilience.pipeline import Carry as Carry
    from holdfast.resilience.pipeline import Done as Done
    from holdfast.resilience.pipeline import ExecutionContext as ExecutionContext
    from holdfast.resilience.pipeline import Failed as Failed
    from holdfast.resilience.pipeline import Operation as Operation
    from holdfast.resilience.pipeline import Outcome as Outcome
    from holdfast.resilience.pipeline import Pipeline as Pipeline
    from holdfast.resilience.pipeline import Strategy as Strategy
    from holdfast.resilience.retry.options import DEFER as DEFER
    from holdfast.resilience.retry.options import CustomRetry as CustomRetry
    from holdfast.resilience.retry.options import Defer as Defer
    from holdfast.resilience.retry.options import ProviderHandler as ProviderHandler
    from holdfast.resilience.retry.options import RefreshCredentials as RefreshCredentials
    from holdfast.resilience.retry.options import RetryAnswer as RetryAnswer
    from holdfast.resilience.retry.options import RetryOptions as RetryOptions
    from holdfast.resilience.retry.strategy import Retry as Retry
    from holdfast.resilience.timeout.strategy import AttemptTimeout as AttemptTimeout
    from holdfast.resilience.timeout.strategy import Deadline as Deadline

_HOME: dict[str, str] = {
    "AttemptTimeout": "holdfast.resilience.timeout.strategy",
    "BreakerOpenError": "holdfast.resilience.breaker.strategy",
    "BreakerOptions": "holdfast.resilience.breaker.options",
    "BreakerSnapshot": "holdfast.resilience.breaker.strategy",
    "BreakerStrategy": "holdfast.resilience.breaker.strategy",
    "BudgetOptions": "holdfast.resilience.budget.options",
    "Cache": "holdfast.resilience.cache.strategy",
    "CacheOptions": "holdfast.resilience.cache.options",
    "CallContext": "holdfast.resilience.pipeline",
    "CallMetrics": "holdfast.resilience.metrics",
    "Carry": "holdfast.resilience.pipeline",
    "CircuitBreaker": "holdfast.resilience.breaker.strategy",
    "Clock": "holdfast.resilience.clock",
    "CustomRetry": "holdfast.resilience.retry.options",
    "DEFER": "holdfast.resilience.retry.options",
    "Deadline": "holdfast.resilience.timeout.strategy",
    "Defer": "holdfast.resilience.retry.options",
    "Done": "holdfast.resilience.pipeline",
    "EndpointState": "holdfast.resilience.endpoint_states",
    "EndpointStates": "holdfast.resilience.endpoint_states",
    "ExecutionContext": "holdfast.resilience.pipeline",
    "Failed": "holdfast.resilience.pipeline",
    "Fallback": "holdfast.resilience.fallback.strategy",
    "FallbackTarget": "holdfast.resilience.fallback.options",
    "Hedge": "holdfast.resilience.hedge.strategy",
    "HedgeOptions": "holdfast.resilience.hedge.options",
    "Latencies": "holdfast.resilience.hedge.strategy",
    "LimiterError": "holdfast.resilience.limiter.strategy",
    "LimiterLoad": "holdfast.resilience.limiter.strategy",
    "LimiterOptions": "holdfast.resilience.limiter.options",
    "LimiterStrategy": "holdfast.resilience.limiter.strategy",
    "MetricsRecorder": "holdfast.resilience.metrics",
    "MetricsSnapshot": "holdfast.resilience.metrics",
    "Operation": "holdfast.resilience.pipeline",
    "Outcome": "holdfast.resilience.pipeline",
    "PROCESS": "holdfast.resilience.endpoint_states",
    "Pipeline": "holdfast.resilience.pipeline",
    "ProviderHandler": "holdfast.resilience.retry.options",
    "RateLimiter": "holdfast.resilience.limiter.strategy",
    "RefreshCredentials": "holdfast.resilience.retry.options",
    "RejectedCall": "holdfast.resilience.breaker.decision",
    "ReplyLimits": "holdfast.core.limits",
    "Reservation": "holdfast.resilience.limiter.decision",
    "Resilience": "holdfast.resilience.defaults",
    "Retry": "holdfast.resilience.retry.strategy",
    "RetryAnswer": "holdfast.resilience.retry.options",
    "RetryBudget": "holdfast.resilience.budget.retry_budget",
    "RetryOptions": "holdfast.resilience.retry.options",
    "Rng": "holdfast.resilience.clock",
    "SessionRetries": "holdfast.resilience.metrics",
    "Stats": "holdfast.resilience.cache.strategy",
    "Store": "holdfast.resilience.cache.strategy",
    "Strategy": "holdfast.resilience.pipeline",
    "Ticket": "holdfast.resilience.breaker.decision",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
