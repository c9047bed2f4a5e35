"""Answers of a type around a call of the user: ask, read, check, and ask again with the problems.

A wrong answer goes back with its problems; a call that fails, a refusal and an answer that was cut are not asked for
again, because another wording of the same question changes nothing about them. An answer is read in the words of the
schema that the user wrote, however it was sent. The growing answer of a stream is a preview, which is never checked and
never becomes the result. With `blocking` a coroutine of this module never waits, so it needs no event loop. This module
must never make a call itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.calls.asked_call import AskedCall, Correction
from holdfast.calls.call_result import CallResult, ResultKind
from holdfast.calls.call_wording import PreviewCallback, failure_text
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.guard import run_callable
from holdfast.calls.response_reader import ResponseReader
from holdfast.calls.sdk_errors import classify
from holdfast.calls.session_log import UNKNOWN, current_session
from holdfast.codecs.output_mode import OutputMethod, replace_output_call, truncation_error
from holdfast.codecs.schemas.rewriting import JsonRewriter, RewriteNode, Rewritings
from holdfast.core.argument_checks import check_value, is_async
from holdfast.core.deltas import Delta, TextDelta, ToolCallDelta
from holdfast.core.errors import ConfigurationError, OutputError, TruncatedError
from holdfast.core.limits import Limits
from holdfast.core.messages import FinishReason, Part, Reply, Text, ToolCall, Usage
from holdfast.core.model_request import OutputSchema
from holdfast.core.output import (
    Invalid,
    OutputParsedBy,
    OutputRejected,
    ParseResult,
    Valid,
    bound_problems,
    repair_message,
)
from holdfast.core.output_retries import OutputRetries, output_error_info
from holdfast.core.partial_json import Partials, parse_partial_json
from holdfast.core.problems import Problem
from holdfast.models.refusals import REFUSALS, Subject
from holdfast.output.answer_checks import (
    BadValidatorError,
    Checks,
    as_cut_output,
    keep_text,
    run_validators,
)
from holdfast.output.output_modes import OTHER_MODES, digest_schemas, is_mode_refusal
from holdfast.output.structured_output import (
    Output,
    OutputContext,
    Validator,
    compile_output,
)
from holdfast.resilience.clock import Clock
from holdfast.resilience.system_clock import SystemClock

logger = logging.getLogger(__name__)

_LONG_TEXT = 65_536
"""Texts of at least this many characters are read in a thread by an asynchronous caller."""

Send: TypeAlias = "Callable[[Callable[[], object], AnswerPreview], Awaitable[CallResult[Any]]]"
"""Makes a call; a streamed reply goes through the preview."""


class TypedQuestion(Struct, frozen=True):
    """A question with the type of its answer.

    Args:
        asked: the call with its arguments.
        output: the compiled type.
    """

    asked: AskedCall
    output: Output


def compile_question(
    call: Callable[..., object],
    args: tuple[object, ...],
    output: object,
    validators: Sequence[Validator],
    reader: ResponseReader | None = None,
) -> TypedQuestion:
    """Return a question with the type of its answer, before anything is sent.

    Raises:
        ConfigurationError: the type has no schema, or the call cannot ask for it.
    """
    check_value("validators", validators, Sequence)
    try:
        made = _compile_once(output)
    except TypeError:  # a list of types has no hash
        made = compile_output(output)
    if made.functions:
        problem = f"{made.functions[0].name!r} is a function"
        fix = "Pass a type, and call the function with the answer"
        raise ConfigurationError("output", problem, fix=fix)
    if validators:
        made = made.with_validators(validators)
    return TypedQuestion(AskedCall(call, args, None if reader is None else reader.profile), made)


_compile_once = lru_cache(maxsize=128)(compile_output)


async def ask_typed(
    question: TypedQuestion,
    send: Send,
    preview_callback: PreviewCallback | None = None,
    *,
    blocking: bool,
) -> CallResult[Any]:
    """Ask a question until an answer is right or its limits are reached, and return the result.

    Args:
        question: the question.
        send: makes one call.
        preview_callback: called with the answer while it grows.
        blocking: this never waits in an event loop; otherwise long work and validators run in a thread.

    Raises:
        ConfigurationError: a validator is asynchronous, and `blocking` is set.
    """
    if blocking and any(is_async(validator) for validator, _ in question.output.validators):
        fix = "Use asend_message, or a plain function"
        raise ConfigurationError("validators", "has an async function", fix=fix)
    attempts = AnswerAttempts(question.asked, question.output, SystemClock())
    while True:
        preview = AnswerPreview(attempts, preview_callback)
        result = await send(attempts.bind_question(), preview)
        if result.parsed_by or isinstance(result.error, OutputError):
            return result  # another piece asked for the type
        attempts.count_call(result)
        if attempts.change_mode(result):
            continue
        reply = attempts.read_reply(result)
        if isinstance(reply, CallResult):
            return reply
        parsed = await _check_answer(attempts, reply, blocking=blocking)
        if isinstance(parsed, Exception):
            return attempts.fail_question(result, parsed)
        ended = attempts.take_answer(result, reply, parsed)
        if ended is not None:
            return ended
        preview.revoke()


async def _check_answer(
    attempts: AnswerAttempts, reply: Reply, *, blocking: bool
) -> ParseResult | Exception:
    """Read a reply and run the validators; an exception is a bug of a validator."""
    parse = partial(attempts.output.parse_reply, reply, attempts.clock.now())
    if call_problem := attempts.find_wrong_call(reply):
        return Invalid((call_problem,))
    if blocking or len(reply.text) < _LONG_TEXT:
        parsed = parse()
    else:
        parsed = cast("ParseResult", await run_callable(parse, "answer"))
    if isinstance(parsed, Invalid) or not attempts.output.validators:
        return parsed
    make_context = partial(attempts.make_context, reply.text)
    checks = run_validators(attempts.output, parsed.value, make_context)
    problems = await _run_checks(checks, blocking=blocking)
    if isinstance(problems, Exception):
        return problems
    return Invalid(problems) if problems else parsed


async def _run_checks(checks: Checks, *, blocking: bool) -> tuple[Problem, ...] | Exception:
    check: Callable[[], object] | None = None
    rejected: OutputRejected | None = None
    returned: object = None
    while True:
        try:
            if check is None:
                check = next(checks)
            else:
                check = checks.send(returned) if rejected is None else checks.throw(rejected)
        except StopIteration as end:
            return cast("tuple[Problem, ...]", end.value)
        except BadValidatorError as error:
            return error
        returned = rejected = None
        # A StopIteration of a validator would leave a coroutine as another error.
        with ErrorCatcher() as caught:
            returned = check() if blocking else await run_callable(check, "answer")
        if isinstance(caught.error, OutputRejected):
            rejected = caught.error
        elif caught.error is not None:
            return caught.error


class AnswerAttempts:
    """The answers to one question so far, and their cost."""

    def __init__(self, asked: AskedCall, output: Output, clock: Clock) -> None:
        self.output = output
        self.clock = clock
        self._asked = asked
        self._schema = output.schema
        self._limits = output.cap_limits(Limits())
        self._retries = OutputRetries()
        self._calls = 0
        self._usage = Usage()
        self._corrections: list[Correction] = []
        self._problems: tuple[Problem, ...] = ()
        self._text = ""
        self._digest = digest_schemas(self._schema)
        self._refused: dict[Subject, str] = {}
        self.method = self._skip_refused(self._asked.choose_method(self._schema))

    @property
    def schema(self) -> OutputSchema:
        """The schema of the answer."""
        return self._schema

    def find_rewritings(self) -> Rewritings:
        """Return the changes that an answer needs."""
        return self._asked.find_rewritings(self._schema, self.method) or Rewritings()

    def bind_question(self) -> Callable[[], object]:
        """Return the call of the next attempt."""
        return self._asked.bind_question(self._schema, self.method, self._corrections)

    def count_call(self, result: CallResult[Any]) -> None:
        """Count a call and its tokens."""
        self._calls += result.attempts
        self._usage += result.usage

    def change_mode(self, result: CallResult[Any]) -> bool:
        """Whether the endpoint refused the mode of this call, so that the next mode is tried."""
        mode, info = self.method.mode, result.info
        if self._schema.mode != "auto" or info is None:
            return False
        if not is_mode_refusal(
            info, mode, lambda: self._asked.find_texts(self._schema, self._corrections)
        ):
            return False
        following = OTHER_MODES[mode]
        if not self._takes(following):
            following = OTHER_MODES["tool"]
        self._refused[("output_mode", mode, self._digest)] = following
        logger.info("The endpoint refused the output mode %r; the next is %r", mode, following)
        self.method = replace(self.method, mode=following)
        return True

    def _skip_refused(self, method: OutputMethod) -> OutputMethod:
        """Return the method with the next mode that this endpoint did not refuse for this schema."""
        mode = method.mode
        if self._schema.mode == "auto" and self._asked.account:
            learnt = REFUSALS.find(self._asked.account, self._asked.model)
            while following := learnt.get(("output_mode", mode, self._digest)):
                # What an agent learnt may be a tool, which this call may not take.
                mode = OTHER_MODES["tool"] if not self._takes(following) else OTHER_MODES[mode]
        return method if mode == method.mode else replace(method, mode=mode)

    def _takes(self, mode: str) -> bool:
        return mode != "tool" or self._asked.takes_tools

    def _learn_refusals(self) -> None:
        """Remember the modes that were refused, now that another one has succeeded."""
        if self._refused and self._asked.account:
            REFUSALS.learn(self._asked.account, self._asked.model, self._refused)

    def read_reply(self, result: CallResult[Any]) -> Reply | CallResult[Any]:
        """Return the reply with the answer as its text, or the end if there is no answer."""
        reply = None if result.reply is None else self._restore(result.reply)
        if not result.ok:
            if isinstance(result.error, TruncatedError):
                partial_reply = reply or Reply((Text(result.partial_text),))
                return self._fail_cut(result, result.error, partial_reply)
            return self.fail_question(result, result.error)
        self._learn_refusals()
        if reply is None:
            reply = Reply((Text(result.text),), finish=FinishReason.STOP)
        if (cut := truncation_error(reply)) is not None:
            return self._fail_cut(result, cut, reply)
        if reply.calls and (self._asked.has_tools or not self._asked.takes_tools):
            return self._end(replace(result, kind=ResultKind.TOOLS, text="", output=None))
        return reply

    def find_wrong_call(self, reply: Reply) -> Problem | None:
        """Return the problem of a reply that calls a tool which nobody offered."""
        if not reply.calls:
            return None
        return Problem("the answer", f"must be JSON, and not a call of {reply.calls[0].name!r}")

    def make_context(self, text: str) -> OutputContext[object]:
        """Return the context of a validator."""
        session = current_session()
        return OutputContext(
            run_id="",
            key="",
            session=None if session == UNKNOWN else session,
            deps=None,
            text=text,
            failures=self._retries.failed,
        )

    def take_answer(
        self, result: CallResult[Any], reply: Reply, parsed: ParseResult
    ) -> CallResult[Any] | None:
        """Return the result of an answer; None if it is wrong and is asked for again."""
        now = self.clock.monotonic()
        self._retries.record_output(now, self._usage)
        if isinstance(parsed, Valid):
            return self._accept(result, reply, parsed.value, parsed.parsed_by)
        self._problems, self._text = bound_problems(parsed.problems), reply.text
        if not self._retries.are_exhausted(self._limits, now, self._usage):
            self._retries.failed += 1
            self._corrections.append(Correction(reply.text, repair_message(self._problems)))
            return None
        if self.output.takes_raw:
            return self._accept(result, reply, reply.text, "raw")
        info = output_error_info(self._retries.failed + 1, self._problems)
        error = OutputError(info.safe, info=info, problems=self._problems, partial=reply)
        keep_text(error, reply.text)
        return self.fail_question(result, error)

    def _restore(self, reply: Reply) -> Reply:
        """Return a reply in the words of the original schema, with an output call as its text."""
        rewritings = self.find_rewritings()
        parts: list[Part] = []
        for part in reply.parts:
            if isinstance(part, ToolCall):
                node = rewritings.tools.get(part.name)
                parts.append(replace(part, arguments=_rewrite(node, part.arguments)))
            elif isinstance(part, Text):
                parts.append(replace(part, text=_rewrite(rewritings.output, part.text)))
            else:
                parts.append(part)
        return replace_output_call(replace(reply, parts=tuple(parts)), self._schema)

    def _accept(
        self, result: CallResult[Any], reply: Reply, value: object, parsed_by: OutputParsedBy
    ) -> CallResult[Any]:
        said = replace(
            result,
            kind=ResultKind.TEXT,
            user_message=reply.text,
            text=reply.text,
            tool_calls=(),
            output=value,
            parsed_by=parsed_by,
            reply=reply,
        )
        return self._end(said)

    def _fail_cut(
        self, result: CallResult[Any], error: TruncatedError, reply: Reply
    ) -> CallResult[Any]:
        cut = as_cut_output(error)
        cut.partial = cut.partial or reply
        keep_text(cut, reply.text)
        self._text = reply.text
        return self.fail_question(result, cut)

    def fail_question(self, result: CallResult[Any], error: Exception | None) -> CallResult[Any]:
        """Return the result of a question without an answer, with the best that came."""
        if error is None or error is result.error:
            return self._end(result)
        info = classify(error)
        kind = ResultKind.INVALID if isinstance(error, OutputError) else ResultKind.ERROR
        failed = replace(
            result,
            kind=ResultKind.TRUNCATED if isinstance(error, TruncatedError) else kind,
            user_message=failure_text(error, info),
            text="",
            tool_calls=(),
            output=None,
            error=error,
            info=info,
        )
        return self._end(failed)

    def _end(self, result: CallResult[Any]) -> CallResult[Any]:
        is_answer = result.kind is ResultKind.TEXT
        text = "" if is_answer else self._text
        return replace(
            result,
            usage=self._usage,
            attempts=self._calls,
            problems=() if is_answer and result.parsed_by != "raw" else self._problems,
            best=parse_partial_json(text) if text else None,
            partial_text=result.partial_text or text,
        )


def _rewrite(node: RewriteNode | None, text: str) -> str:
    if node is None:
        return text
    rewriter = JsonRewriter(node)
    return rewriter.feed(text) + rewriter.close()


class AnswerPreview:
    """Passes the growing answer of one attempt to a callback, whose exceptions are logged.

    Args:
        attempts: the question and how it is asked.
        callback: called with the value; it is one object that grows, and None when it became invalid.
    """

    def __init__(self, attempts: AnswerAttempts, callback: PreviewCallback | None) -> None:
        self._callback = callback
        self._rewritings = Rewritings() if callback is None else attempts.find_rewritings()
        self._schema = attempts.schema
        self._partials = Partials(attempts.schema)
        self._rewriters: dict[tuple[str, int], JsonRewriter | None] = {}

    def begin(self) -> None:
        """Begin a reply; what an attempt that failed has shown is invalid."""
        self.revoke()
        self._partials = Partials(self._schema)
        self._rewriters.clear()

    def read_deltas(self, deltas: Sequence[Delta]) -> None:
        """Read the next deltas of the reply."""
        if self._callback is None:
            return
        has_changed = False
        for delta in deltas:
            has_changed = self._partials.feed(self._restore(delta)) or has_changed
        if has_changed:
            self._show(self._partials.value)

    def revoke(self) -> None:
        """Say that the answer was wrong."""
        if self._partials.value is not None:
            self._show(None)

    def _restore(self, delta: Delta) -> Delta:
        """Return a delta in the words of the original schema."""
        if isinstance(delta, TextDelta):
            rewriter = self._find_rewriter("text", 0, self._rewritings.output)
            return delta if rewriter is None else replace(delta, text=rewriter.feed(delta.text))
        if isinstance(delta, ToolCallDelta):
            node = self._rewritings.tools.get(delta.name)
            rewriter = self._find_rewriter("call", delta.index, node)
            if rewriter is not None:
                return replace(delta, arguments=rewriter.feed(delta.arguments))
        return delta

    def _find_rewriter(
        self, kind: str, index: int, node: RewriteNode | None
    ) -> JsonRewriter | None:
        key = (kind, index)
        if key not in self._rewriters:
            self._rewriters[key] = None if node is None else JsonRewriter(node)
        return self._rewriters[key]

    def _show(self, value: object) -> None:
        if self._callback is None:
            return
        with ErrorCatcher() as caught:
            self._callback(value)
        if caught.error is not None:
            logger.warning("The preview callback raised %s", redact_exception(caught.error))
