"""Turns the items that a turn shows into chunks of a UI message stream.

This module is pure. It must never emit a delta of a part that it has not begun.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterator

import msgspec

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.events import Status
from holdfast.core.messages import Media, ToolResult
from holdfast.core.questions import (
    Approved,
    ContinuationQuestion,
    Denied,
    PermissionQuestion,
    plain_form,
    question_content,
)
from holdfast.event_log.display.display_items import (
    AgentTextShown,
    CallArgumentsShown,
    CallReady,
    CallStarted,
    DisplayItem,
    HostedCallShown,
    MediaShown,
    NoticeShown,
    QuestionClosed,
    QuestionShown,
    ReasoningEnded,
    ReasoningShown,
    ResultShown,
    SourcesShown,
    StepFinished,
    StepStarted,
    StepWithdrawn,
    StreamCut,
    TextEnded,
    TextShown,
    TurnEnded,
    TurnWaits,
    UserShown,
    parse_arguments,
    question_id,
    read_result,
)
from holdfast.event_log.text_fold import notice_name
from holdfast.server.protocols.vercel.provider_chunks import (
    AgentOutputs,
    Chunk,
    format_hosted,
    format_sources,
)

_STEPS: dict[type, str] = {
    StepStarted: "start-step",
    StepFinished: "finish-step",
    StepWithdrawn: "reset-step",
}

_REASONS = {
    Status.COMPLETED: "stop",
    Status.STOPPED: "stop",
    Status.LIMIT: "other",
    Status.FAILED: "error",
}


class VercelProjection:
    """The chunks of one turn.

    Args:
        session: the session, which is the id of the chat.
        turn: the number of the turn.
        static: the tools that the agent always has. The parts of others are dynamic.
    """

    __slots__ = (
        "_agents",
        "_approvals",
        "_client",
        "_decided",
        "_held",
        "_names",
        "_open",
        "_reasonings",
        "_static",
        "_turn",
        "session",
    )

    def __init__(
        self,
        session: str,
        turn: int,
        static: Collection[str] = (),
    ) -> None:
        self.session = session
        self._turn = turn
        self._static = static
        self._client: Collection[str] = ()
        self._agents = AgentOutputs()
        self._names: dict[str, str] = {}
        self._held: dict[str, CallReady] = {}  # calls of the page that it is not asked for yet
        self._decided: set[str] = set()  # those that a person has decided about
        self._open: set[str] = set()  # ids of text and reasoning that have begun
        self._reasonings: dict[str, int] = {}
        self._approvals: dict[str, str] = {}  # call -> id of its open approval

    def start(self) -> Chunk:
        """Return the first chunk of a stream."""
        return {
            "type": "start",
            "messageId": message_id(self.session, self._turn),
            "messageMetadata": {"session": self.session, "turn": self._turn},
        }

    def feed(self, item: DisplayItem, position: str) -> Iterator[Chunk]:
        """Yield the chunks of an item.

        Args:
            item: the item.
            position: the place of the reader after it.
        """
        if isinstance(item, UserShown):
            self._client = item.client_tools
        elif isinstance(item, StepStarted | StepFinished | StepWithdrawn):
            yield self._format_step(item)
        elif isinstance(item, TextShown | TextEnded | ReasoningShown | ReasoningEnded):
            yield from self._format_text(item)
        elif isinstance(item, CallStarted | CallArgumentsShown | CallReady):
            yield from self._format_call(item)
        elif isinstance(item, ResultShown | AgentTextShown):
            yield from self._format_output(item)
        elif isinstance(item, MediaShown | HostedCallShown | SourcesShown | NoticeShown):
            yield from _format_content(item)
        elif isinstance(item, QuestionShown):
            yield from self._format_question(item, position)
        elif isinstance(item, QuestionClosed):
            yield from self._format_answer(item)
        elif isinstance(item, TurnEnded | TurnWaits | StreamCut):
            yield from _format_end(item, position)

    def _format_text(
        self, item: TextShown | TextEnded | ReasoningShown | ReasoningEnded
    ) -> Iterator[Chunk]:
        is_text = isinstance(item, TextShown | TextEnded)
        kind = "text" if is_text else "reasoning"
        part = f"{item.step}.{kind}"
        if not is_text and part not in self._open and isinstance(item, ReasoningShown):
            self._reasonings[part] = self._reasonings.get(part, -1) + 1
        number = self._reasonings.get(part, 0)
        shown = f"{part}.{number}" if number else part
        if isinstance(item, TextShown | ReasoningShown):
            if part not in self._open:
                self._open.add(part)
                yield {"type": f"{kind}-start", "id": shown}
            yield {"type": f"{kind}-delta", "id": shown, "delta": item.text}
        elif part in self._open:
            self._open.discard(part)
            yield {"type": f"{kind}-end", "id": shown}

    def _format_call(self, item: CallStarted | CallArgumentsShown | CallReady) -> Iterator[Chunk]:
        if isinstance(item, CallStarted):
            self._names[item.call] = item.name
            yield {"type": "tool-input-start", **self._describe_call(item.call, item.name)}
        elif isinstance(item, CallArgumentsShown):
            yield {
                "type": "tool-input-delta",
                "toolCallId": item.call,
                "inputTextDelta": item.text,
            }
        else:
            self._names[item.call] = item.name
            chunk = self._format_input(item)
            if item.name in self._client and chunk["type"] == "tool-input-available":
                self._held[item.call] = item  # the page would run it, and it may be refused
            else:
                yield chunk

    def _format_output(self, item: ResultShown | AgentTextShown) -> Iterator[Chunk]:
        if isinstance(item, ResultShown):
            self._approvals.pop(item.call, None)
            held = self._held.pop(item.call, None)
            if held is not None:
                yield {**self._format_input(held), "providerExecuted": True}
            yield from _format_result(item.call, item.result, is_denied=item.is_denied)
        elif item.call in self._names:  # else the call was not shown
            yield from self._agents.feed(item)

    def _format_step(self, item: StepStarted | StepFinished | StepWithdrawn) -> Chunk:
        self._open.clear()
        if isinstance(item, StepWithdrawn):
            for known in (self._names, self._approvals, self._held):
                for call in [call for call in known if call.startswith(f"{item.step}.")]:
                    del known[call]
        return {"type": _STEPS[type(item)]}

    def _describe_call(self, call: str, name: str) -> Chunk:
        described: Chunk = {"toolCallId": call, "toolName": name}
        if name not in self._static and name not in self._client:
            described["dynamic"] = True
        if name not in self._client:
            described["providerExecuted"] = True  # and not by the page
        return described

    def _format_input(self, item: CallReady) -> Chunk:
        described = self._describe_call(item.call, item.name)
        value = parse_arguments(item.arguments)
        if value is None:
            text = "The arguments are not a JSON object."
            return {
                "type": "tool-input-error",
                **described,
                "input": item.arguments,
                "errorText": text,
            }
        return {"type": "tool-input-available", **described, "input": value}

    def _format_held(self, call: str, *, is_asked: bool) -> Chunk:
        """Return a call of the page, which the page runs only if it is asked to."""
        chunk = self._format_input(self._held[call])
        if not is_asked:
            return {**chunk, "providerExecuted": True}
        del self._held[call]
        was_shown = call in self._decided
        return {**chunk, "providerExecuted": False} if was_shown else chunk

    def _format_question(self, item: QuestionShown, position: str) -> Iterator[Chunk]:
        question, name = item.question, question_id(item.question)
        call = item.call
        is_approval = isinstance(question, PermissionQuestion | ContinuationQuestion)
        if call in self._held:
            # Before the position: whoever reads on from there has it.
            yield self._format_held(call, is_asked=isinstance(question, ClientToolQuestion))
        yield {"type": "message-metadata", "messageMetadata": {"position": position}}
        if is_approval and call in self._names and call not in self._approvals:
            self._approvals[call] = name
        elif isinstance(question, ClientToolQuestion):
            return  # its call says it all
        else:
            call = name
            yield {
                "type": "tool-input-available",
                "toolCallId": name,
                "toolName": notice_name(type(question)),
                "input": question_content(question),
                "dynamic": True,
            }
        if is_approval:
            chunk: Chunk = {"type": "tool-approval-request", "approvalId": name, "toolCallId": call}
            yield {**chunk, "approvalDescriptor": question_content(question)}

    def _format_answer(self, item: QuestionClosed) -> Iterator[Chunk]:
        question, name = item.question, question_id(item.question)
        if isinstance(question, PermissionQuestion | ContinuationQuestion):
            yield from self._format_decision(item, name)
        if self._approvals.get(item.call) == name:
            del self._approvals[item.call]
        elif not isinstance(question, ClientToolQuestion):
            if item.why is None:
                output = plain_form(item.answer)
                yield {"type": "tool-output-available", "toolCallId": name, "output": output}
            else:
                text = f"Nobody answered: {item.why}."
                yield {"type": "tool-output-error", "toolCallId": name, "errorText": text}

    def _format_decision(self, item: QuestionClosed, name: str) -> Iterator[Chunk]:
        answer = item.answer
        is_yes = item.why is None and not isinstance(answer, Denied)
        if item.call in self._held:
            self._decided.add(item.call)
        chunk: Chunk = {"type": "tool-approval-response", "approvalId": name, "approved": is_yes}
        reason = answer.reason if isinstance(answer, Denied) else item.why
        yield {**chunk, "reason": reason} if reason else chunk
        if isinstance(answer, Approved) and answer.arguments is not None and item.call:
            edited = dict(answer.arguments)
            if item.call in self._held:
                text = msgspec.json.encode(edited).decode()
                self._held[item.call] = msgspec.structs.replace(
                    self._held[item.call], arguments=text
                )
                return
            described = self._describe_call(item.call, self._names.get(item.call, ""))
            yield {"type": "tool-input-available", **described, "input": edited}


def message_id(session: str, turn: int) -> str:
    """Return the id of the assistant's message of a turn.

    >>> message_id("ada", 2)
    'ada.t2'
    """
    return f"{session}.t{turn}"


def turn_of_message(session: str, message: str) -> int:
    """Return the number of the turn whose message of the assistant has this id; 0 if none has.

    >>> turn_of_message("ada", "ada.t2"), turn_of_message("ada", "msg-1")
    (2, 0)
    """
    before, between, number = message.rpartition(".t")
    is_ours = between and before == session and number.isascii() and number.isdecimal()
    return int(number) if is_ours and len(number) < 10 else 0


def format_media(media: Media) -> Chunk:
    """Return the chunk of a picture, a sound or a file."""
    if media.url is not None:
        url = media.url
    else:
        url = f"data:{media.media_type};base64,{b64encode(media.data or b'').decode()}"
    return {"type": "file", "mediaType": media.media_type, "url": url}


def _format_content(
    item: MediaShown | HostedCallShown | SourcesShown | NoticeShown,
) -> Iterator[Chunk]:
    if isinstance(item, MediaShown):
        yield format_media(item.media)
    elif isinstance(item, HostedCallShown):
        yield from format_hosted(item)
    elif isinstance(item, SourcesShown):
        yield from format_sources(item)
    else:
        yield {"type": f"data-{item.name}", "data": dict(item.fields), "transient": True}


def _format_result(call: str, result: ToolResult, *, is_denied: bool) -> Iterator[Chunk]:
    if is_denied:
        yield {"type": "tool-output-denied", "toolCallId": call}
    elif result.is_error:
        yield {"type": "tool-output-error", "toolCallId": call, "errorText": result.text}
    else:
        yield {"type": "tool-output-available", "toolCallId": call, "output": read_result(result)}
        for part in result.content:
            if isinstance(part, Media):
                yield format_media(part)


def _format_end(item: TurnEnded | TurnWaits | StreamCut, position: str) -> Iterator[Chunk]:
    metadata: dict[str, object] = {"position": position}
    if isinstance(item, StreamCut):
        metadata["end"] = item.reason
        yield {"type": "finish", "finishReason": "interrupted", "messageMetadata": metadata}
        return
    if item.usage:
        metadata["usage"] = msgspec.to_builtins(dict(item.usage))
    if isinstance(item, TurnWaits):
        metadata["status"] = Status.WAITING.value
        yield {"type": "finish", "finishReason": "tool-calls", "messageMetadata": metadata}
        return
    metadata["status"] = item.status.value
    if item.status is Status.CANCELLED:
        yield {"type": "message-metadata", "messageMetadata": metadata}
        yield {"type": "abort", "reason": "The turn was cancelled."}
    elif item.status is Status.FAILED:
        yield {"type": "message-metadata", "messageMetadata": metadata}
        text = item.error.safe if item.error is not None else "The turn failed."
        yield {"type": "error", "errorText": text}
    else:
        reason = _REASONS.get(item.status, "other")
        yield {"type": "finish", "finishReason": reason, "messageMetadata": metadata}
