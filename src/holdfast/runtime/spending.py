"""What the calls of a turn use and cost, and what they may still spend.

A meter counts a tool call that is still running; the event of a finished call holds its usage and its
cost. Neither must ever be counted twice, so the meter of a call is removed when its event is saved.
`TurnMoney` prices each attempt of a model with the model that made it. With a limit of the cost it
asks before each attempt, also of a retry, a hedge and a fallback, what the rest pays for. It must never
guess a price, and must never let an attempt begin that could spend more than the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.json_text import read_tier
from holdfast.codecs.quoted_texts import SentTexts, list_user_parts, names_subject
from holdfast.core.cost import EXACT, ZERO, Cost, CostSum
from holdfast.core.effects import RunTool
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    LimitError,
)
from holdfast.core.events import FailedTarget
from holdfast.core.limits import Limits, cost_limit, limit_text
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import NO_USAGE, FinishReason, Reply, ReplyKind, Usage
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.middleware.history_reduction import message_size
from holdfast.models.http_model import Model
from holdfast.models.prices import ModelPrice, Prices, name_priced
from holdfast.models.reply_carry import ReplyCarry, read_carry
from holdfast.resilience.clock import Clock
from holdfast.resilience.pipeline import CallContext, Done, Failed, Operation, Outcome
from holdfast.tools.checked_call import Invocation
from holdfast.tools.context import UsageSink
from holdfast.tools.threads import ThreadCall

TokensLeft: TypeAlias = Callable[[], int | None]
"""Returns the remaining tokens; None without a limit."""

LEAST_REPLY = 256
"""Tokens that a reply must be able to have; for fewer the model is not asked."""

SHARED_LIMIT_TEXT = "The limit of the cost of the agent that it works for is reached."

MOST_REPLY = 128_000
"""Tokens that no reply exceeds, so that a larger limit of a reply is not sent."""


class UsageMeter(Struct, eq=False):
    """The usage and cost of one running tool call, the error info of its refusal, and its last result.

    Args:
        remaining: returns the remaining tokens of the turn.
        parent: the meter of the calling agent, if this agent runs as a subagent.
        money: the money of the turn; None without prices.
        cost: what the usage cost; None without prices.
        held: the amount that is reserved for model calls inside this call.
        left_running: the work of a sync tool whose time was over, which may go on in its thread.
    """

    remaining: TokensLeft
    parent: UsageSink | None = None
    money: TurnMoney | None = None
    usage: Usage = NO_USAGE
    refusal: ErrorInfo | None = None
    last: Invocation | None = None
    left_running: ThreadCall | None = None
    cost: Cost | None = None
    held: Decimal = ZERO
    _counted_runs: set[str] = set()

    def add(self, usage: Usage, cost: Cost | None = None) -> None:
        """Add usage and cost to this call and to all of its callers."""
        total = CostSum()
        total.add(self.cost, has_used=self.usage.total > 0)
        total.add(cost, has_used=usage.total > 0)
        self.usage, self.cost = self.usage + usage, total.cost
        if self.parent is not None:
            self.parent.add(usage, cost)

    def take_over(self, run_id: str, usage: Usage, cost: Cost | None = None) -> None:
        """Add the earlier usage of a resumed run, once per run.

        Args:
            run_id: the id of the run; its further usage is counted by `add`.
            usage: the usage so far.
            cost: its cost.
        """
        if run_id not in self._counted_runs:
            self._counted_runs.add(run_id)
            self.add(usage, cost)

    def remaining_tokens(self) -> int | None:
        """Return the remaining tokens for the agents and models in this call."""
        return self.remaining()

    def hold(self, amount: Decimal) -> None:
        """Reserve an amount for a model call inside this call; a negative one is given back."""
        self.held = EXACT.add(self.held, amount)
        if isinstance(self.parent, UsageMeter):
            self.parent.hold(amount)

    @property
    def spent(self) -> Decimal:
        """The amount that this call has spent or reserved."""
        return self.held if self.cost is None else EXACT.add(self.held, self.cost.amount)


def count_remaining(limit: int | None, used: Usage, under_way: list[UsageMeter]) -> int | None:
    """Return the remaining tokens of a turn; None without a limit.

    Args:
        limit: the token limit of the turn.
        used: the usage of its model calls and finished tool calls.
        under_way: the meters of its running tool calls.
    """
    if limit is None:
        return None
    return limit - used.total - sum(notes.usage.total for notes in under_way)


class TurnMoney:
    """The money of one turn.

    Args:
        prices: the prices of tokens.
        machine: the state of the turn, with its limit and the cost of its events.
        meters: the meters of its running tool calls.
        parent: the meter of the calling agent, if this agent runs as a subagent.
        clock: tells the time of an attempt, on which some prices depend.
    """

    __slots__ = (
        "_clock",
        "_machine",
        "_meters",
        "_parent",
        "_scale",
        "_uncounted",
        "call",
        "held",
        "prices",
    )

    def __init__(
        self,
        prices: Prices,
        machine: SessionMachine,
        meters: dict[str, UsageMeter],
        parent: UsageSink | None,
        clock: Clock,
    ) -> None:
        self.prices = prices
        self.call: CallMeter | None = None
        """The model call that is under way, or whose event is not saved yet."""
        self.held = ZERO
        """The amount that it has spent or reserved, and that of attempts that nobody counted."""
        self._uncounted = ZERO
        self._machine = machine
        self._meters = meters
        self._parent = parent if isinstance(parent, UsageMeter) else None
        self._clock = clock
        self._scale = Decimal("0.25")  # tokens for each byte of a request

    def begin_call(self) -> CallMeter:
        """Begin a model call; the calls of one effect are one."""
        if self.call is None:
            self.call = CallMeter(self)
        return self.call

    def end_call(self) -> CallMeter | None:
        """End the model call whose event is about to be saved; None if no model was asked."""
        call, self.call = self.call, None
        if call is not None:
            self._uncounted = EXACT.add(self._uncounted, call.uncounted)
            self.hold(EXACT.subtract(self._uncounted, self.held))
        return call

    def find_rest(self, among: int = 1) -> Decimal | None:
        """Return what may still be spent; None without a limit.

        Args:
            among: how many calls share the rest.
        """
        limit, rest = cost_limit(self._machine.limits), None
        if limit is not None:
            cost = self._machine.cost
            spent = sum((meter.spent for meter in self._meters.values()), self.held)
            rest = limit - spent - (ZERO if cost is None else cost.amount)
            rest = EXACT.divide(rest, Decimal(among))
        parent = self._parent
        if parent is None or parent.money is None:
            return rest
        above = parent.money.find_rest(parent.money.count_sharers() if not parent.held else 1)
        return above if rest is None or (above is not None and above < rest) else rest

    def count_sharers(self) -> int:
        """Return how many tool calls of the turn may ask models and have reserved nothing yet."""
        tools = [one for one in self._machine.pending_effects() if isinstance(one, RunTool)]
        holding = sum(meter.held > 0 for meter in self._meters.values())
        return max(1, len(tools) - holding)

    def hold(self, amount: Decimal) -> None:
        """Reserve an amount for the model call; a negative one is given back."""
        self.held = EXACT.add(self.held, amount)
        if self._parent is not None:
            self._parent.hold(amount)

    def estimate_input(self, request: ModelRequest) -> int:
        """Estimate the tokens of a request: its messages, instructions, tools and output schema.

        The last reply of the turn corrects the estimate, since its provider has counted.
        """
        return int(_measure_request(request) * self._scale) + 1

    def correct_estimate(self, request: ModelRequest, usage: Usage) -> None:
        """Learn from the tokens that a provider counted for a request."""
        if usage.input > 0:
            self._scale = Decimal(usage.input) / max(1, _measure_request(request))

    def price_attempt(self, model: Model, request: ModelRequest, used: Reply) -> Cost:
        """Return what one attempt cost.

        Args:
            model: the model that made it.
            request: its request.
            used: its reply, with the usage of this attempt alone.
        """
        priced = name_priced(model, request.model, used.model)
        cost = self.prices.cost_of(priced, used.usage, used.tier, self._clock.now())
        if used.usage.total or not cost.known:
            return cost
        # The provider has counted nothing.
        row = self.prices.find_price(priced, self._clock.now())
        is_free = row is not None and not row.input and not row.output
        return replace(cost, known=is_free)

    def find_price(self, model: Model, request: ModelRequest, tokens: int) -> ModelPrice | None:
        """Return the prices of a request that is to be sent."""
        row = self.prices.find_price(name_priced(model, request.model), self._clock.now())
        if row is None:
            return None
        extra = request.settings.extra or {}
        tier = read_tier(extra.get("service_tier"), extra.get("serviceTier"))
        return row.for_request(tier, tokens) or row.for_request("", tokens)

    @property
    def limit_text(self) -> str:
        """The text of a turn that ends at the limit of its cost, or of that of its caller."""
        limits = self._machine.limits
        return SHARED_LIMIT_TEXT if limits.cost is None else limit_text(limits, "cost")


class CallMeter:
    """The attempts of one model call: what they used and cost, and which of them were not paid for.

    Args:
        money: the money of the turn.
    """

    __slots__ = ("_costs", "_money", "_targets", "refusal", "uncounted")

    def __init__(self, money: TurnMoney) -> None:
        self._money = money
        self._costs = CostSum()
        self._targets: dict[str, tuple[Usage, Cost | None]] = {}
        self.refusal: LimitError | None = None
        """The limit that refused an attempt or cut its reply."""
        self.uncounted = ZERO
        """The amount reserved for attempts that nobody counted, beyond the part that is known."""

    @property
    def cost(self) -> Cost:
        """The cost of the attempts so far."""
        cost = self._costs.cost
        return Cost(ZERO, self._money.prices.currency) if cost is None else cost

    def name_costs(self, tried: tuple[FailedTarget, ...]) -> tuple[FailedTarget, ...]:
        """Return targets that failed with what their attempts used and cost."""
        named = []
        for failed in tried:
            usage, cost = self._targets.get(failed.target, (NO_USAGE, None))
            named.append(replace(failed, usage=usage, cost=cost))
        return tuple(named)

    async def make_attempt(
        self,
        model: Model,
        attempt: Operation[ModelRequest, Reply],
        call: CallContext[ModelRequest],
    ) -> Outcome[Reply]:
        """Make one attempt, if the rest pays for it.

        Args:
            model: the model.
            attempt: makes the attempt.
            call: the call.
        """
        admitted = self._admit(model, call.payload)
        if isinstance(admitted, LimitError):
            self.refusal = admitted
            return Failed(admitted, admitted.info, attempts=0, sent=False)
        reserved, request = admitted
        self._money.hold(reserved)
        is_capped = request is not call.payload
        cost: Cost | None = None
        used, amount = (
            NO_USAGE,
            reserved,
        )  # of an attempt that is cancelled, nobody knows what it cost
        try:
            outcome = await attempt(replace(call, payload=request) if is_capped else call)
            is_ours = is_capped and call.payload.settings.max_tokens is None
            if is_ours and _refuses_cap(outcome, call.payload):
                # The model writes less than the limit that it refused.
                outcome = await attempt(call)
                is_capped = False
            used = _read_used(call, outcome)
            cost = self._price(model, call, outcome, used)
            amount = cost.amount if cost.known else max(reserved, cost.amount)
        finally:
            self._money.hold(EXACT.subtract(amount, reserved))
            if cost is None:
                cost = Cost(ZERO, self._money.prices.currency, known=False)
            self.uncounted = EXACT.add(self.uncounted, EXACT.subtract(amount, cost.amount))
            self._costs.add(cost, has_used=True)
            usage, earlier = self._targets.get(model.name, (NO_USAGE, None))
            self._targets[model.name] = (usage + used, cost if earlier is None else earlier + cost)
        reply = _reply_of(outcome)
        is_cut = reply is not None and reply.finish is FinishReason.LENGTH
        if is_capped and (is_cut or _leaves_no_reply(outcome)):
            return self._end_cut_reply(outcome, reply)
        return outcome

    def _admit(
        self, model: Model, request: ModelRequest
    ) -> tuple[Decimal, ModelRequest] | LimitError:
        """Return what is reserved for a request, and the request with the limit that the rest pays for."""
        money = self._money
        rest = money.find_rest()
        if rest is None:
            return ZERO, request
        tokens = money.estimate_input(request)
        price = money.find_price(model, request, tokens)
        if price is None:
            return _make_limit_error(f"The price of {model.name} is not known.")
        settings = request.settings
        sent = Usage(input=tokens)
        if settings.cache and price.cache_write is not None:
            longest = tokens if settings.cache == "1h" and price.cache_write_1h is not None else 0
            sent = Usage(input=tokens, cache_write=tokens, cache_write_1h=longest)
        paid, _ = price.cost_of(sent)
        for_reply = EXACT.subtract(rest, paid)
        each, wanted = EXACT.scaleb(price.output, -6), settings.max_tokens
        # Of a wire that has a limit by default, no reply is longer.
        most = wanted or _find_default(model, settings) or MOST_REPLY
        if not each:
            affordable = most if for_reply >= 0 else 0
        else:
            affordable = int(EXACT.divide(for_reply, each).to_integral_value(ROUND_FLOOR))
        least = LEAST_REPLY if wanted is None else min(LEAST_REPLY, wanted)
        if affordable < least or affordable <= (settings.reasoning_tokens or 0):
            return _make_limit_error(money.limit_text)
        if affordable < most:
            most = affordable
            request = replace(request, settings=replace(settings, max_tokens=most))
        return EXACT.fma(each, most, paid), request

    def _price(
        self,
        model: Model,
        call: CallContext[ModelRequest],
        outcome: Outcome[Reply],
        used: Usage,
    ) -> Cost:
        """Return what an attempt cost; not known if it may have cost something that nobody counted."""
        money, reply = self._money, _reply_of(outcome)
        nothing = Cost(ZERO, money.prices.currency)
        if reply is None:
            return nothing if _is_unpaid(outcome) else replace(nothing, known=False)
        if isinstance(outcome, Done) and read_carry(call).reply_so_far is None:
            money.correct_estimate(call.payload, reply.usage)
        cost = money.price_attempt(model, call.payload, replace(reply, usage=used))
        is_cut = isinstance(outcome, Failed) and reply.kind in _BROKEN
        return replace(cost, known=False) if is_cut else cost

    def _end_cut_reply(self, outcome: Outcome[Reply], reply: Reply | None) -> Failed:
        """Return the end of the turn at its limit, for a reply that was cut since the rest paid for no more."""
        error = _make_limit_error(self._money.limit_text)
        error.partial = reply
        self.refusal = error
        carry = outcome.carry
        return Failed(error, error.info, attempts=1, may_repeat=False, carry=carry)


def end_at_cost(outcome: Outcome[Reply], call: CallMeter) -> Outcome[Reply]:
    """Return the outcome of a model call; the limit of the cost if that refused its last attempt."""
    if call.refusal is None or not isinstance(outcome, Failed):
        return outcome
    error = _make_limit_error(str(call.refusal))  # without what the strategies have added
    error.partial = call.refusal.partial
    if isinstance(outcome.error, HoldfastError) and error.partial is None:
        error.partial = outcome.error.partial
    return replace(outcome, error=error, info=error.info)


def meter_attempts(
    model: Model, attempt: Operation[ModelRequest, Reply]
) -> Operation[ModelRequest, Reply]:
    """Return the operation of one attempt that the meter of its call prices."""

    async def make_attempt(call: CallContext[ModelRequest]) -> Outcome[Reply]:
        meter = read_carry(call).meter
        if not isinstance(meter, CallMeter):
            raise ConfigurationError(
                "pipeline", "has a strategy that drops the carry of a call, so it has no cost"
            )
        return await meter.make_attempt(model, attempt, call)

    return make_attempt


def check_cost_limit(
    limits: Limits, prices: Prices | None, models: tuple[Model, ...], at: float
) -> None:
    """Check that a limit of the cost can be kept.

    Args:
        limits: the limits of a turn.
        prices: the prices of the agent.
        models: the models that may be asked.
        at: the time, in seconds since the epoch.

    Raises:
        ConfigurationError: there are no prices, or none of a model.
    """
    if limits.cost is None:
        return
    if prices is None:
        fix = "Pass Agent(prices=Prices.known()), or prices of your own"
        raise ConfigurationError("limits.cost", "needs prices, and the agent has none", fix=fix)
    for model in models:
        if prices.find_price(name_priced(model, model.model), at) is None:
            raise ConfigurationError(
                "limits.cost",
                f"needs a price of {model.name}, which is not known",
                fix=f'Pass Prices({{"{model.model}": {{"input": "...", "output": "..."}}}})',
            )


def _make_limit_error(text: str) -> LimitError:
    error = LimitError(text, limit="cost")
    error.info = ErrorInfo(category=ErrorCategory.LIMIT, safe=text, code="cost", landed=Landed.NO)
    return error


def _reply_of(outcome: Outcome[Reply]) -> Reply | None:
    """Return the reply of an attempt, or the part of it that arrived."""
    if isinstance(outcome, Done):
        return outcome.value
    partial = outcome.error.partial if isinstance(outcome.error, HoldfastError) else None
    if partial is None and isinstance(outcome.carry, ReplyCarry):
        partial = outcome.carry.reply_so_far
    return partial


def _read_used(call: CallContext[ModelRequest], outcome: Outcome[Reply]) -> Usage:
    """Return the tokens of an attempt alone: a reply that it continued was counted before."""
    reply, earlier = _reply_of(outcome), read_carry(call).reply_so_far
    if reply is None:
        return NO_USAGE
    return reply.usage if earlier is None else reply.usage - earlier.usage


_BROKEN = (ReplyKind.UNTERMINATED, ReplyKind.ERROR_REPLY)
"""Replies that end before their provider has counted all of them."""

_REFUSALS = frozenset(
    {
        ErrorCategory.AUTH_ERROR,
        ErrorCategory.CLIENT_ERROR,
        ErrorCategory.CONTEXT_WINDOW,
        ErrorCategory.MODEL_NOT_FOUND,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        ErrorCategory.RATE_LIMIT_TERMINAL,
    }
)


_GATEWAY_TIMEOUTS = frozenset({408, 502, 504, 524})
"""Statuses of a gateway that had no reply in time: the provider behind it may have written one, and charge it."""


def _is_unpaid(outcome: Outcome[Reply]) -> bool:
    """Whether an attempt without a reply was certainly not charged: it was refused, or never arrived."""
    if not isinstance(outcome, Failed) or not outcome.sent:
        return True
    info = outcome.info
    if info.status is not None:
        return info.status not in _GATEWAY_TIMEOUTS
    return info.landed is Landed.NO or info.category in _REFUSALS


_CAP = re.compile(r"max[_ ]?(?:completion|output)?[_ ]?tokens")


def _refuses_cap(outcome: Outcome[Reply], request: ModelRequest) -> bool:
    """Whether a provider refused a request since its model cannot write so many tokens, and did not only quote it."""
    if not isinstance(outcome, Failed) or outcome.info.status not in (400, 422):
        return False
    said = outcome.info.private or outcome.info.safe
    return names_subject(_CAP, said, lambda: SentTexts(*list_user_parts(request)))


def _leaves_no_reply(outcome: Outcome[Reply]) -> bool:
    """Whether a limited request was not sent, since the model would think for longer than the limit."""
    error = outcome.error if isinstance(outcome, Failed) else None
    return isinstance(error, ConfigurationError) and error.argument == "settings.max_tokens"


def _find_default(model: Model, settings: ModelSettings) -> int | None:
    """Return the limit of a reply that is sent if the user sets none; None if there is none."""
    default = getattr(model, "default_max_tokens", None)
    if default is None or settings.reasoning_effort is not None:
        return None
    return int(default) + (settings.reasoning_tokens or 0)


def _measure_request(request: ModelRequest) -> int:
    """Return the bytes of a request, by the rule of `message_size`."""
    size = sum([message_size(message) for message in request.messages])
    size += len(request.instructions.encode("utf-8", "surrogatepass")) + len(request.prefill)
    for tool in request.tools:
        size += len(tool.name) + len(tool.description.encode("utf-8", "surrogatepass"))
        size += len(msgspec.json.encode(tool.schema))
    if request.output is not None:
        size += len(msgspec.json.encode(request.output.schema))
    return size
