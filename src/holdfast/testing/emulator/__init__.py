"""A provider emulator on loopback that fails as a script says; it works with any framework.

The runtime must never import this package, which must never need a network or a key.
"""

from holdfast.testing.emulator.emulated_request import EmulatedRequest
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
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    WrongContentType,
    chaos,
)
from holdfast.testing.emulator.hosted_parts import (
    EmulatedCitation,
    EmulatedHostedCall,
    cited,
    hosted_call,
)
from holdfast.testing.emulator.log import LoggedRequest
from holdfast.testing.emulator.script import call, echo, thinking
from holdfast.testing.emulator.server import Emulator, Listen, serve

__all__ = [
    "CloseBeforeHeaders",
    "CutToolArguments",
    "Delay",
    "DropAfter",
    "EmptyChoices",
    "EmulatedCitation",
    "EmulatedHostedCall",
    "EmulatedRequest",
    "Emulator",
    "ErrorEvent",
    "ErrorResponse",
    "ExtraHeaders",
    "Fault",
    "GarbageLine",
    "Html200",
    "HttpStatus",
    "Listen",
    "LoggedRequest",
    "NoTerminator",
    "OddJson",
    "Pace",
    "ResetAfterHeaders",
    "ResetBeforeHeaders",
    "ReusedToolIds",
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
