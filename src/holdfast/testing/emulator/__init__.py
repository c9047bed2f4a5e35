"""A provider emulator on loopback that fails as a script says; it works with any framework.

The runtime must never import this package, which must never need a network or a key.
"""

from holdfast.testing.emulator.emulated_request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.faults import (
    CloseBeforeHeaders,
    CutToolArguments,
    Delay,
    DropAfter,
    EmptyChoices,
    ErrorEvent,
    ErrorResponse,
    ExtraHeaders,
    Fault,
    GarbageLine,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    Pace,
    RepeatedArguments,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    WrongContentType,
    chaos,
)
from holdfast.testing.emulator.script import (
    EmulatedCitation,
    EmulatedHostedCall,
    call,
    cited,
    echo,
    hosted_call,
    thinking,
)
from holdfast.testing.emulator.server import Emulator, Listen, serve
from holdfast.testing.emulator.serving import LoggedRequest
from holdfast.testing.emulator.wires.dress_words import ErrorForm, SchemaForm, SchemaProblem
from holdfast.testing.emulator.wires.dresses import DRESSES, Dress
from holdfast.testing.emulator.wires.request_rules import FieldFault, FieldRule, RefusalWording

__all__ = [  # noqa: RUF022  # REASON: sorted as every list of public names
    "CloseBeforeHeaders",
    "CutToolArguments",
    "DRESSES",
    "Delay",
    "Dress",
    "DropAfter",
    "EmptyChoices",
    "EmulatedCitation",
    "EmulatedHostedCall",
    "EmulatedRequest",
    "Emulator",
    "ErrorEvent",
    "ErrorForm",
    "ErrorResponse",
    "ExtraHeaders",
    "Fault",
    "FieldFault",
    "FieldRule",
    "GarbageLine",
    "Html200",
    "HttpStatus",
    "Listen",
    "LoggedRequest",
    "MalformedRequest",
    "NoTerminator",
    "OddJson",
    "Pace",
    "RefusalWording",
    "RepeatedArguments",
    "ResetAfterHeaders",
    "ResetBeforeHeaders",
    "ReusedToolIds",
    "SchemaForm",
    "SchemaProblem",
    "SplitEveryByte",
    "Stall",
    "TruncatedJson",
    "WrongContentType",
    "call",
    "chaos",
    "cited",
    "echo",
    "hosted_call",
    "serve",
    "thinking",
]
