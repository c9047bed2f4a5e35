"""The exceptions that bytes from outside can cause when they are decoded."""

import msgspec

# Deep nesting is a RecursionError, and text that is not UTF-8 a UnicodeDecodeError.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
