"""The emulated model of the demo service: its answers, and how often it fails.

The model is a function of the request. It must never need a network or a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.core.messages import Part, Text
from holdfast.testing.emulator import (
    Delay,
    DropAfter,
    EmulatedRequest,
    ErrorEvent,
    ErrorResponse,
    Fault,
    Pace,
    ResetBeforeHeaders,
    call,
    chaos,
)

UNREADABLE = "Summarize the whole archive"
"""A message that no model can read: the request is too long."""

CANCELLED = "Write a long report"
"""A message whose turn is cancelled while the model writes."""


class _Order(Struct):
    total: float


_ORDER = re.compile(r"[A-Z]-\d{4}")
_SHARE = 0.2
_CHAOS: tuple[Fault, ...] = (
    ErrorResponse("rate_limit", {"retry-after": "2"}),
    ErrorResponse("overloaded"),
    ErrorResponse("server_error"),
    ResetBeforeHeaders(),
    DropAfter(25),
    ErrorEvent(12),
)


def make_faults(
    is_live: Callable[[], bool],
) -> Callable[[EmulatedRequest], tuple[Fault, ...] | None]:
    """Return the faults of the provider: one of five requests fails, and a live reply takes its time.

    Args:
        is_live: whether somebody may watch; before that, nothing is slow.
    """
    choose = chaos(seed=7, share=_SHARE, faults=_CHAOS)

    def choose_faults(request: EmulatedRequest) -> tuple[Fault, ...] | None:
        if UNREADABLE in request.text:
            return (ErrorResponse("context_length"),)
        fault = choose(request)
        is_slow = is_live() or CANCELLED in request.text
        slow: tuple[Fault, ...] = (Delay(0.4), Pace(0.03)) if is_slow else ()
        return (*slow, *((fault,) if fault is not None else ()))

    return choose_faults


def choose_reply(request: EmulatedRequest) -> str | list[Part]:
    """Choose the next reply of the agent whose tools are in the request."""
    if any(tool.name == "refund" for tool in request.tools):
        return _reply_of_support(request)
    return _reply_of_research(request)


def _reply_of_support(request: EmulatedRequest) -> str | list[Part]:
    order = _ORDER.search(request.text)
    if order is None:
        return SUPPORT_HELP
    if request.iteration == 0:
        return [
            Text(f"I look up order {order.group()}."),
            call("find_order", {"order": order.group()}),
            call("read_policy", {"topic": "refunds"}),
        ]
    if request.iteration == 1:
        found = next((one.text for one in request.tool_results), "{}")
        return [
            Text("The order is covered by our policy. I ask for the refund."),
            call("refund", {"order": order.group(), "amount": _find_total(found)}),
        ]
    results = " ".join(result.text for result in request.tool_results)
    if results.startswith("refunded"):
        return SUPPORT_DONE.format(order=order.group(), result=results)
    return SUPPORT_DENIED.format(order=order.group(), result=results)


def _find_total(order: str) -> float:
    try:
        return msgspec.json.decode(order, type=_Order).total
    except msgspec.MsgspecError:
        return 10.0


def _reply_of_research(request: EmulatedRequest) -> str | list[Part]:
    if request.iteration == 0:
        words = [word for word in re.findall(r"\w+", request.text) if len(word) > 3][:3]
        return [
            Text("I search three sources at once."),
            *(call("search", {"source": source, "words": " ".join(words)}) for source in SOURCES),
        ]
    return REPORT


SOURCES = ("papers", "incidents", "changelogs")

SUPPORT_HELP = """I handle orders. Give me an order number, for example:

- *Refund order A-1042, the lamp arrived broken.*
- *Order B-2210 arrived twice.*

A refund needs the approval of a person. You find it under **Approvals**.
"""

SUPPORT_DONE = """Done: {result}.

| what | value |
|---|---|
| order | `{order}` |
| state | refunded |

The customer sees the money within three working days.
"""

SUPPORT_DENIED = """I did not refund order `{order}`.

> {result}

Tell me if I should offer a replacement instead.
"""

REPORT = """## What the three sources say

Retries help only while a provider is **briefly** unavailable. Four findings:

1. **Retry-After is usually right.** Clients that wait as long as they are told finish earlier than
   those that guess.
2. **Retries multiply.** Three layers with three attempts each make 27 requests of one. A budget for
   all retries of an endpoint prevents that.
3. **Half a stream is common.** About one of eighty long replies ends without its finish reason. Text
   that was shown must be taken back or continued.
4. **Writing tools are the hard part.** A request that timed out may have taken effect.

| failure | retry | wait |
|---|---|---|
| 429 | yes | as long as the provider says |
| 503, 529 | yes | 1, 2, 4 seconds |
| 400 | no | |
| stream cut | yes, continued | none |

```python
agent = Agent("openai:gpt-5.2", retry=RetryOptions(max_retries=3))
```

The incidents agree with the papers in all but one point: after long outages, the first minute of
recovery sees the most failures, since all clients come back at once. A circuit breaker that lets
single requests through spreads them.
"""
