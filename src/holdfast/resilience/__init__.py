"""Strategies that make one effect safe: declared as data, decided purely, waiting injected.

A strategy must never read the real clock, draw a real number, or know a provider or a tool. Each has
the same three parts: the options, the pure decision on explicit state, the thin wrapper. Where runs
share the state, the decision has a file of its own (`breaker`, `limiter`, `cache`) and the wrapper
stands with the holder of the state (`circuit`, `throttle`, `replay`).
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.resilience.breaker import BreakerOptions as BreakerOptions
    from holdfast.resilience.breaker import RejectedCall as RejectedCall
    from holdfast.resilience.breaker import Ticket as Ticket
    from holdfast.resilience.budget import BudgetOptions as BudgetOptions
    from holdfast.resilience.budget import RetryBudget as RetryBudget
    from holdfast.resilience.cache import CacheOptions as CacheOptions
    from holdfast.resilience.circuit import BreakerOpenError as BreakerOpenError
    from holdfast.resilience.circuit import BreakerSnapshot as BreakerSnapshot
    from holdfast.resilience.circuit import BreakerStrategy as BreakerStrategy
    from holdfast.resilience.circuit import CircuitBreaker as CircuitBreaker
    from holdfast.resilience.clock import Clock as Clock
    from holdfast.resilience.clock import Rng as Rng
    from holdfast.resilience.defaults import Resilience as Resilience
    from holdfast.resilience.fallback import Fallback as Fallback
    from holdfast.resilience.fallback import FallbackTarget as FallbackTarget
    from holdfast.resilience.handling import DEFER as DEFER
    from holdfast.resilience.handling import CustomRetry as CustomRetry
    from holdfast.resilience.handling import Defer as Defer
    from holdfast.resilience.handling import ProviderHandler as ProviderHandler
    from holdfast.resilience.handling import RefreshCredentials as RefreshCredentials
    from holdfast.resilience.handling import RetryAnswer as RetryAnswer
    from holdfast.resilience.handling import RetryOptions as RetryOptions
    from holdfast.resilience.hedge import Hedge as Hedge
    from holdfast.resilience.hedge import HedgeOptions as HedgeOptions
    from holdfast.resilience.hedge import Latencies as Latencies
    from holdfast.resilience.limiter import LimiterOptions as LimiterOptions
    from holdfast.resilience.limiter import Reservation as Reservation
    from holdfast.resilience.metrics import CallMetrics as CallMetrics
    from holdfast.resilience.metrics import MetricsRecorder as MetricsRecorder
    from holdfast.resilience.metrics import MetricsSnapshot as MetricsSnapshot
    from holdfast.resilience.pipeline import CallContext as CallContext
    from holdfast.resilience.pipeline import Done as Done
    from holdfast.resilience.pipeline import ExecutionContext as ExecutionContext
    from holdfast.resilience.pipeline import Failed as Failed
    from holdfast.resilience.pipeline import Operation as Operation
    from holdfast.resilience.pipeline import Outcome as Outcome
    from holdfast.resilience.pipeline import Pipeline as Pipeline
    from holdfast.resilience.pipeline import Strategy as Strategy
    from holdfast.resilience.replay import Cache as Cache
    from holdfast.resilience.replay import Stats as Stats
    from holdfast.resilience.replay import Store as Store
    from holdfast.resilience.retry import Retry as Retry
    from holdfast.resilience.shared import PROCESS as PROCESS
    from holdfast.resilience.shared import EndpointStates as EndpointStates
    from holdfast.resilience.throttle import LimiterError as LimiterError
    from holdfast.resilience.throttle import LimiterLoad as LimiterLoad
    from holdfast.resilience.throttle import LimiterStrategy as LimiterStrategy
    from holdfast.resilience.throttle import RateLimiter as RateLimiter
    from holdfast.resilience.timeout import AttemptTimeout as AttemptTimeout
    from holdfast.resilience.timeout import Deadline as Deadline

_HOME: dict[str, str] = {
    "AttemptTimeout": "holdfast.resilience.timeout",
    "BreakerOpenError": "holdfast.resilience.circuit",
    "BreakerOptions": "holdfast.resilience.breaker",
    "BreakerSnapshot": "holdfast.resilience.circuit",
    "BreakerStrategy": "holdfast.resilience.circuit",
    "BudgetOptions": "holdfast.resilience.budget",
    "Cache": "holdfast.resilience.replay",
    "CacheOptions": "holdfast.resilience.cache",
    "CallContext": "holdfast.resilience.pipeline",
    "CallMetrics": "holdfast.resilience.metrics",
    "CircuitBreaker": "holdfast.resilience.circuit",
    "Clock": "holdfast.resilience.clock",
    "CustomRetry": "holdfast.resilience.handling",
    "DEFER": "holdfast.resilience.handling",
    "Deadline": "holdfast.resilience.timeout",
    "Defer": "holdfast.resilience.handling",
    "Done": "holdfast.resilience.pipeline",
    "EndpointStates": "holdfast.resilience.shared",
    "ExecutionContext": "holdfast.resilience.pipeline",
    "Failed": "holdfast.resilience.pipeline",
    "Fallback": "holdfast.resilience.fallback",
    "FallbackTarget": "holdfast.resilience.fallback",
    "Hedge": "holdfast.resilience.hedge",
    "HedgeOptions": "holdfast.resilience.hedge",
    "Latencies": "holdfast.resilience.hedge",
    "LimiterError": "holdfast.resilience.throttle",
    "LimiterLoad": "holdfast.resilience.throttle",
    "LimiterOptions": "holdfast.resilience.limiter",
    "LimiterStrategy": "holdfast.resilience.throttle",
    "MetricsRecorder": "holdfast.resilience.metrics",
    "MetricsSnapshot": "holdfast.resilience.metrics",
    "Operation": "holdfast.resilience.pipeline",
    "Outcome": "holdfast.resilience.pipeline",
    "PROCESS": "holdfast.resilience.shared",
    "Pipeline": "holdfast.resilience.pipeline",
    "ProviderHandler": "holdfast.resilience.handling",
    "RateLimiter": "holdfast.resilience.throttle",
    "RefreshCredentials": "holdfast.resilience.handling",
    "RejectedCall": "holdfast.resilience.breaker",
    "Reservation": "holdfast.resilience.limiter",
    "Resilience": "holdfast.resilience.defaults",
    "Retry": "holdfast.resilience.retry",
    "RetryAnswer": "holdfast.resilience.handling",
    "RetryBudget": "holdfast.resilience.budget",
    "RetryOptions": "holdfast.resilience.handling",
    "Rng": "holdfast.resilience.clock",
    "Stats": "holdfast.resilience.replay",
    "Store": "holdfast.resilience.replay",
    "Strategy": "holdfast.resilience.pipeline",
    "Ticket": "holdfast.resilience.breaker",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
