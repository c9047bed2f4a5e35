"""Models: which endpoint a request is sent to, and how it is sent over HTTP.

This package must not decide whether a failed call is repeated.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.codecs.citation import Citation as Citation
    from holdfast.codecs.endpoint_profile import EndpointProfile as EndpointProfile
    from holdfast.codecs.endpoint_profile import ProfileChanges as ProfileChanges
    from holdfast.codecs.hosted_calls import HostedCall as HostedCall
    from holdfast.codecs.hosted_calls import find_citations as find_citations
    from holdfast.codecs.hosted_calls import find_hosted_calls as find_hosted_calls
    from holdfast.codecs.openai_chat.probing import ProbeCall as ProbeCall
    from holdfast.codecs.openai_chat.probing import ProbeResult as ProbeResult
    from holdfast.codecs.openai_chat.probing import TraitFinding as TraitFinding
    from holdfast.codecs.output_mode import OutputMethod as OutputMethod
    from holdfast.codecs.wire import Codec as Codec
    from holdfast.codecs.wire import EncodedRequest as EncodedRequest
    from holdfast.codecs.wire import Failure as Failure
    from holdfast.core.cost import Cost as Cost
    from holdfast.core.deltas import CharactersReplaced as CharactersReplaced
    from holdfast.core.deltas import Decoder as Decoder
    from holdfast.core.deltas import Delta as Delta
    from holdfast.core.deltas import EndMissing as EndMissing
    from holdfast.core.deltas import ErrorReceived as ErrorReceived
    from holdfast.core.deltas import HostedToolFinished as HostedToolFinished
    from holdfast.core.deltas import HostedToolStarted as HostedToolStarted
    from holdfast.core.deltas import NoChoices as NoChoices
    from holdfast.core.deltas import NotAReply as NotAReply
    from holdfast.core.deltas import PartReceived as PartReceived
    from holdfast.core.deltas import ReasoningDelta as ReasoningDelta
    from holdfast.core.deltas import RefusalDelta as RefusalDelta
    from holdfast.core.deltas import ReplyFinished as ReplyFinished
    from holdfast.core.deltas import ReplyStarted as ReplyStarted
    from holdfast.core.deltas import StreamEnded as StreamEnded
    from holdfast.core.deltas import TextDelta as TextDelta
    from holdfast.core.deltas import ToolCallDelta as ToolCallDelta
    from holdfast.core.deltas import UsageReceived as UsageReceived
    from holdfast.core.hosted_tools import CodeExecution as CodeExecution
    from holdfast.core.hosted_tools import FileSearch as FileSearch
    from holdfast.core.hosted_tools import HostedTool as HostedTool
    from holdfast.core.hosted_tools import ImageGeneration as ImageGeneration
    from holdfast.core.hosted_tools import UserLocation as UserLocation
    from holdfast.core.hosted_tools import WebFetch as WebFetch
    from holdfast.core.hosted_tools import WebSearch as WebSearch
    from holdfast.core.messages import FinishReason as FinishReason
    from holdfast.core.messages import Media as Media
    from holdfast.core.messages import Message as Message
    from holdfast.core.messages import Opaque as Opaque
    from holdfast.core.messages import Part as Part
    from holdfast.core.messages import Reasoning as Reasoning
    from holdfast.core.messages import Refusal as Refusal
    from holdfast.core.messages import Reply as Reply
    from holdfast.core.messages import ReplyKind as ReplyKind
    from holdfast.core.messages import Text as Text
    from holdfast.core.messages import ToolCall as ToolCall
    from holdfast.core.messages import ToolResult as ToolResult
    from holdfast.core.messages import Usage as Usage
    from holdfast.core.messages import assistant as assistant
    from holdfast.core.messages import system as system
    from holdfast.core.messages import tool_results as tool_results
    from holdfast.core.messages import user as user
    from holdfast.core.model_request import CacheTime as CacheTime
    from holdfast.core.model_request import ModelRequest as ModelRequest
    from holdfast.core.model_request import ModelSettings as ModelSettings
    from holdfast.core.model_request import OutputMode as OutputMode
    from holdfast.core.model_request import OutputSchema as OutputSchema
    from holdfast.core.model_request import ReasoningEffort as ReasoningEffort
    from holdfast.core.model_request import ToolSpec as ToolSpec
    from holdfast.core.secret_values import SecretValues as SecretValues
    from holdfast.core.transcript import Transcript as Transcript
    from holdfast.models.http_model import Endpoint as Endpoint
    from holdfast.models.http_model import HttpModel as HttpModel
    from holdfast.models.http_model import Model as Model
    from holdfast.models.presets import PRESETS as PRESETS
    from holdfast.models.presets import Preset as Preset
    from holdfast.models.presets import find_preset as find_preset
    from holdfast.models.prices import PricedModel as PricedModel
    from holdfast.models.prices import Prices as Prices
    from holdfast.models.probe import probe_endpoint as probe_endpoint
    from holdfast.models.resolve import ModelAt as ModelAt
    from holdfast.models.resolve import provider_names as provider_names
    from holdfast.models.resolve import resolve_model as resolve_model
    from holdfast.transport.http import HttpTransport as HttpTransport
    from holdfast.transport.port import HttpRequest as HttpRequest
    from holdfast.transport.port import Response as Response
    from holdfast.transport.port import Timeouts as Timeouts
    from holdfast.transport.port import Transport as Transport

_HOME: dict[str, str] = {
    "CacheTime": "holdfast.core.model_request",
    "CharactersReplaced": "holdfast.core.deltas",
    "Citation": "holdfast.codecs.citation",
    "CodeExecution": "holdfast.core.hosted_tools",
    "Codec": "holdfast.codecs.wire",
    "Cost": "holdfast.core.cost",
    "Decoder": "holdfast.core.deltas",
    "Delta": "holdfast.core.deltas",
    "EncodedRequest": "holdfast.codecs.wire",
    "EndMissing": "holdfast.core.deltas",
    "Endpoint": "holdfast.models.http_model",
    "EndpointProfile": "holdfast.codecs.endpoint_profile",
    "ErrorReceived": "holdfast.core.deltas",
    "Failure": "holdfast.codecs.wire",
    "FileSearch": "holdfast.core.hosted_tools",
    "FinishReason": "holdfast.core.messages",
    "HostedCall": "holdfast.codecs.hosted_calls",
    "HostedTool": "holdfast.core.hosted_tools",
    "HostedToolFinished": "holdfast.core.deltas",
    "HostedToolStarted": "holdfast.core.deltas",
    "HttpModel": "holdfast.models.http_model",
    "HttpRequest": "holdfast.transport.port",
    "HttpTransport": "holdfast.transport.http",
    "ImageGeneration": "holdfast.core.hosted_tools",
    "Media": "holdfast.core.messages",
    "Message": "holdfast.core.messages",
    "Model": "holdfast.models.http_model",
    "ModelAt": "holdfast.models.resolve",
    "ModelRequest": "holdfast.core.model_request",
    "ModelSettings": "holdfast.core.model_request",
    "NoChoices": "holdfast.core.deltas",
    "NotAReply": "holdfast.core.deltas",
    "Opaque": "holdfast.core.messages",
    "OutputMethod": "holdfast.codecs.output_mode",
    "OutputMode": "holdfast.core.model_request",
    "OutputSchema": "holdfast.core.model_request",
    "PRESETS": "holdfast.models.presets",
    "Part": "holdfast.core.messages",
    "PartReceived": "holdfast.core.deltas",
    "Preset": "holdfast.models.presets",
    "PricedModel": "holdfast.models.prices",
    "Prices": "holdfast.models.prices",
    "ProbeCall": "holdfast.codecs.openai_chat.probing",
    "ProbeResult": "holdfast.codecs.openai_chat.probing",
    "ProfileChanges": "holdfast.codecs.endpoint_profile",
    "Reasoning": "holdfast.core.messages",
    "ReasoningDelta": "holdfast.core.deltas",
    "ReasoningEffort": "holdfast.core.model_request",
    "Refusal": "holdfast.core.messages",
    "RefusalDelta": "holdfast.core.deltas",
    "Reply": "holdfast.core.messages",
    "ReplyFinished": "holdfast.core.deltas",
    "ReplyKind": "holdfast.core.messages",
    "ReplyStarted": "holdfast.core.deltas",
    "Response": "holdfast.transport.port",
    "SecretValues": "holdfast.core.secret_values",
    "StreamEnded": "holdfast.core.deltas",
    "Text": "holdfast.core.messages",
    "TextDelta": "holdfast.core.deltas",
    "Timeouts": "holdfast.transport.port",
    "ToolCall": "holdfast.core.messages",
    "ToolCallDelta": "holdfast.core.deltas",
    "ToolResult": "holdfast.core.messages",
    "ToolSpec": "holdfast.core.model_request",
    "TraitFinding": "holdfast.codecs.openai_chat.probing",
    "Transcript": "holdfast.core.transcript",
    "Transport": "holdfast.transport.port",
    "Usage": "holdfast.core.messages",
    "UsageReceived": "holdfast.core.deltas",
    "UserLocation": "holdfast.core.hosted_tools",
    "WebFetch": "holdfast.core.hosted_tools",
    "WebSearch": "holdfast.core.hosted_tools",
    "assistant": "holdfast.core.messages",
    "find_citations": "holdfast.codecs.hosted_calls",
    "find_hosted_calls": "holdfast.codecs.hosted_calls",
    "find_preset": "holdfast.models.presets",
    "probe_endpoint": "holdfast.models.probe",
    "provider_names": "holdfast.models.resolve",
    "resolve_model": "holdfast.models.resolve",
    "system": "holdfast.core.messages",
    "tool_results": "holdfast.core.messages",
    "user": "holdfast.core.messages",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
