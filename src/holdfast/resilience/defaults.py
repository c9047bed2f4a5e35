"""Which strategies an agent has by default, with which values, and why.

No other module may decide a default of an agent's pipeline. A strategy that is None is not in the
pipeline and costs nothing.

| strategy | default | because |
|---|---|---|
| retry | 3 retries: 1, 2, 4 s | most outages of a provider are over in seconds |
| retry budget | a tenth of the calls, 10 in reserve | a lone agent never notices it; a fleet in an outage does not send four times its load |
| breaker | half of at least 10 calls in 30 s; open for 10 s | ten calls are evidence, one unlucky call is not; an outage costs each run one short wait and not four attempts |
| waiting for an open breaker | up to 60 s, and not at all with a fallback | a run that waits a minute is worth more than one that fails; a call of your own fails at once unless you say otherwise |
| limiter | 1000 at once, adaptive | no limit to speak of until the provider refuses; then half of the running calls |
| attempt timeout | none | the transport has five limits that know a slow answer from a dead one; a tool says its own |
| deadline | none | the limits of the turn have one |
| fallback | none | another model is another answer: only when named |
| cache | none | the same question may deserve another answer: only when wanted |
| continuing a broken reply | no | it is text of two attempts, and few providers support it: only when wanted (ADR 0010) |
| hedge | none | it pays twice: only when wanted |

Tools have retry alone: a tool's failures are its own, and the budget, breaker and limiter of a
provider must not be spent or opened by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import ReplyLimits
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import BreakerStrategy
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.cache.decision import account_scope, request_key
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.cache.strategy import Cache, Store
from holdfast.resilience.endpoint_states import PROCESS, EndpointStates
from holdfast.resilience.fallback.options import FallbackTarget
from holdfast.resilience.fallback.strategy import Fallback
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.hedge.strategy import Hedge
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import LimiterStrategy
from holdfast.resilience.metrics import CallMetrics, MetricsRecorder
from holdfast.resilience.pipeline import Operation, Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.timeout.strategy import AttemptTimeout, Deadline

MODEL_BREAKER_WAIT = 60.0
"""How many seconds a call of a model waits for an open breaker, if its retry options do not say."""


class Resilience(Struct, frozen=True, kw_only=True):
    """The strategies around model calls; None switches a strategy off.

    Args:
        budget: how many calls may be repeated.
        breaker: when calls to an endpoint are rejected.
        limiter: how many calls run at once, and how many per minute.
        attempt_timeout: seconds for one attempt, besides the limits of the transport.
        deadline: seconds for one model call with all its attempts.
        hedge: a second attempt beside a slow first one.
        cache: save replies; give a `Store` to share them between agents.
        metrics: where calls are counted.
        continue_streams: when a reply breaks off after some text, let the next attempt write the
            rest, where the provider can do that, in place of all of it again.
        reply_limits: how large a reply may be.

    >>> Resilience(breaker=True)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: resilience.breaker: must be BreakerOptions or None, got bool
    """

    budget: BudgetOptions | None = BudgetOptions()
    breaker: BreakerOptions | None = BreakerOptions()
    limiter: LimiterOptions | None = LimiterOptions()
    attempt_timeout: PositiveFloat | None = None
    deadline: PositiveFloat | None = None
    hedge: HedgeOptions | None = None
    cache: CacheOptions | Store | None = None
    metrics: CallMetrics | None = None
    continue_streams: bool = False
    reply_limits: ReplyLimits = ReplyLimits()

    def __post_init__(self) -> None:
        check_fields(self, "resilience.")


def target_pipeline(
    endpoint: str,
    retry_options: RetryOptions,
    resilience: Resilience,
    *,
    account: str = "",
    last: bool = True,
    shared: EndpointStates = PROCESS,
) -> Pipeline:
    """The strategies around one model: retry and everything inside it.

    Args:
        endpoint: names provider and model; errors show it.
        account: separates addresses and keys of one endpoint; `account_scope` makes one.
        retry_options: the settings of retry.
        resilience: the other settings.
        last: False when there is another model to fall back to; then a call does not wait for an
            open breaker, since the other model can be asked at once.
        shared: where states are found.
    """
    if not last:
        retry_options = msgspec.structs.replace(retry_options, max_breaker_wait=0.0)
    elif retry_options.max_breaker_wait is None:
        retry_options = msgspec.structs.replace(retry_options, max_breaker_wait=MODEL_BREAKER_WAIT)
    chosen = resilience
    budget = shared.budget_for(endpoint, chosen.budget, account) if chosen.budget else None
    return Pipeline.of(
        Retry(retry_options, budget),
        Hedge(shared.latencies_for(endpoint, chosen.hedge, account)) if chosen.hedge else None,
        BreakerStrategy(shared.breaker_for(endpoint, chosen.breaker, account))
        if chosen.breaker
        else None,
        LimiterStrategy(shared.limiter_for(endpoint, chosen.limiter, account))
        if chosen.limiter
        else None,
        AttemptTimeout(chosen.attempt_timeout) if chosen.attempt_timeout else None,
    )


def outer_pipeline(
    scope: str,
    resilience: Resilience,
    *,
    fallback: Fallback | None = None,
    call_type: str = "model",
) -> Pipeline:
    """The strategies around all models together: everything outside of retry.

    Args:
        scope: names the accounts that answers belong to; `account_scope` makes one.
        resilience: the settings.
        fallback: the other models, each with its own `target_pipeline` around it.
        call_type: the kind of call in metrics.
    """
    cache, metrics = resilience.cache, resilience.metrics
    store = Store(cache) if isinstance(cache, CacheOptions) else cache
    return Pipeline.of(
        MetricsRecorder(metrics, call_type) if metrics is not None else None,
        Deadline(resilience.deadline) if resilience.deadline else None,
        Cache(store, request_key(scope)) if store is not None else None,
        fallback,
    )


class Candidate(Struct, frozen=True):
    """One model that may be asked.

    Args:
        name: for records and errors, `provider:model`.
        model: its name on its wire, put into the request.
        endpoint: names provider and model; errors show it.
        operation: asks it once.
        account: separates addresses and keys of one endpoint; `account_scope` makes one.
    """

    name: str
    model: str
    endpoint: str
    operation: Operation[ModelRequest, Reply]
    account: str = ""


def compose_model_call(
    candidates: Sequence[Candidate],
    retry_options: RetryOptions,
    resilience: Resilience,
    *,
    shared: EndpointStates = PROCESS,
) -> tuple[Pipeline, Operation[ModelRequest, Reply]]:
    """The operation that asks the first model, and the others when it fails.

    Args:
        candidates: the models, the preferred one first.
        retry_options: the settings of retry.
        resilience: the other settings.
        shared: where states are found.

    Returns:
        The pipeline of the first model, for `describe`, and the operation with all strategies around it.
    """
    if not candidates:
        raise ConfigurationError("model", "is not given")
    pipelines = [
        target_pipeline(
            one.endpoint,
            retry_options,
            resilience,
            account=one.account,
            last=one is candidates[-1],
            shared=shared,
        )
        for one in candidates
    ]
    first, *others = zip(candidates, pipelines, strict=True)
    targets = tuple(
        FallbackTarget(one.name, inner.wrap_operation(one.operation), one.model)
        for one, inner in others
    )
    fallback = Fallback(first[0].name, targets) if targets else None
    scope = account_scope(*(word for one in candidates for word in (one.endpoint, one.account)))
    outer = outer_pipeline(scope, resilience, fallback=fallback)
    whole = Pipeline((*outer.strategies, *first[1].strategies))
    return whole, whole.wrap_operation(first[0].operation)


def tool_pipeline(retry_options: RetryOptions) -> Pipeline:
    """The strategies around a tool: retry alone."""
    return Pipeline.of(Retry(retry_options))
