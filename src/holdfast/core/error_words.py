"""The words for the errors of pydantic and of msgspec, as tables.

The types of pydantic's errors are those of `pydantic_core.core_schema.ErrorType`, and of the errors that its classes
raise themselves. This module must never contain a rule: `core.problem_wording` makes sentences of the words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FIXED_PROBLEM: Final = "fixed_problem"
"""The type of an error whose message is a sentence of ours."""

EXTRA_PROBLEM: Final = "extra_problem"
"""The type of an error about a name that the schema does not have."""

CHOICE_PROBLEM: Final = "choice_problem"
"""The type of an error about a value that fits no alternative of a schema; the message is used if none can be named."""

MISSING_PROBLEM: Final = "missing_problem"
"""The type of an error about a name that is not there, at the place where it should be."""

BROKEN_CONSTRAINTS: Final[Mapping[str, str]] = {
    "greater_than": "be more than {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "multiple_of": "be a multiple of {multiple_of}",
    "finite_number": "be a finite number",
    "int_parsing_size": "be an integer with fewer digits",
    "too_short": "have at least {min_length:item}",
    "too_long": "have at most {max_length:item}",
    "string_too_short": "have at least {min_length:character}",
    "string_too_long": "have at most {max_length:character}",
    "string_pattern_mismatch": "match the pattern {pattern}",
    "string_not_ascii": "have only ASCII characters",
    "string_unicode": "be valid Unicode",
    "bytes_too_short": "have at least {min_length:byte}",
    "bytes_too_long": "have at most {max_length:byte}",
    "bytes_invalid_encoding": "be bytes in {encoding}",
    "json_invalid": "be valid JSON text",
    "json_type": "be a string of JSON text",
    "date_past": "be a date in the past",
    "date_future": "be a date in the future",
    "date_from_datetime_inexact": "be a date without a time",
    "datetime_past": "be a date and time in the past",
    "datetime_future": "be a date and time in the future",
    "timezone_naive": "have no time zone",
    "timezone_aware": "have a time zone (such as 2026-11-29T10:00:00Z)",
    "timezone_offset": "have the time zone {tz_expected}",
    "decimal_parsing": "be a decimal number (such as 12.50)",
    "decimal_type": "be a decimal number (such as 12.50)",
    "decimal_max_digits": "have at most {max_digits:digit}",
    "decimal_max_places": "have at most {decimal_places:decimal}",
    "decimal_whole_digits": "have at most {whole_digits:digit} before the decimal point",
    "fraction_parsing": "be a fraction (such as 3/4)",
    "fraction_type": "be a fraction (such as 3/4)",
    "complex_type": "be a complex number (such as 1+2j)",
    "complex_str_parsing": "be a complex number (such as 1+2j)",
    "url_parsing": "be a URL (such as https://example.org/page)",
    "url_syntax_violation": "be a URL (such as https://example.org/page)",
    "url_scheme": "be a URL that begins with {expected_schemes}",
    "url_too_long": "have at most {max_length:character}",
    "uuid_version": "be a UUID of version {expected_version}",
    "is_instance_of": "be a {class}",
    "is_subclass_of": "be a subclass of {class}",
    # The errors that the classes of pydantic raise themselves.
    "base64_decode": "be valid base64",
    "byte_size": "be a size in bytes (such as 1.5MB)",
    "byte_size_unit": "be a size in a known unit (such as 1.5MB)",
    "ip_any_address": "be an IPv4 or IPv6 address",
    "ip_any_interface": "be an IPv4 or IPv6 interface",
    "ip_any_network": "be an IPv4 or IPv6 network",
    "ip_v4_address": "be an IPv4 address",
    "ip_v4_interface": "be an IPv4 interface",
    "ip_v4_network": "be an IPv4 network",
    "ip_v6_address": "be an IPv6 address",
    "ip_v6_interface": "be an IPv6 interface",
    "ip_v6_network": "be an IPv6 network",
    "parent_does_not_exist": "be a path in a folder that exists",
    "path_exists": "be a path that does not exist yet",
    "path_not_directory": "be the path of a folder that exists",
    "path_not_file": "be the path of a file that exists",
    "path_type": "be a path",
    "pattern_regex": "be a valid regular expression",
    "payment_card_number_digits": "have only digits",
    "payment_card_number_luhn": "be a card number with a valid check digit",
    "zoneinfo_str": "be a time zone (such as Europe/Berlin)",
}
"""The errors about a constraint, by type; each completes "must ". A noun after a colon is counted."""

WRONG_TYPES: Final[Mapping[str, str]] = {
    "arguments_type": "an array or an object",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "bytes_type": "a string",
    "callable_type": "a function",
    "counter_type": "an object",
    "dataclass_exact_type": "an object",
    "dataclass_type": "an object",
    "date_from_datetime_parsing": "a date (YYYY-MM-DD)",
    "date_parsing": "a date (YYYY-MM-DD)",
    "date_type": "a date (YYYY-MM-DD)",
    "datetime_from_date_parsing": "a date and time (such as 2026-11-29T10:00:00Z)",
    "datetime_object_invalid": "a date and time (such as 2026-11-29T10:00:00Z)",
    "datetime_parsing": "a date and time (such as 2026-11-29T10:00:00Z)",
    "datetime_type": "a date and time (such as 2026-11-29T10:00:00Z)",
    "deque_type": "an array",
    "dict_type": "an object",
    "enum": "one of {expected}",
    "float_parsing": "a number",
    "float_type": "a number",
    "frozen_dict_type": "an object",
    "frozen_set_type": "an array",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "iterable_type": "an array",
    "list_type": "an array",
    "literal_error": "one of {expected}",
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "named_tuple_type": "an array or an object",
    "none_required": "null",
    "ordered_dict_type": "an object",
    "pattern_str_type": "a regular expression",
    "pattern_type": "a regular expression",
    "sequence_str": "an array",
    "set_type": "an array",
    "string_type": "a string",
    "time_delta_parsing": "a duration (such as PT1H30M)",
    "time_delta_type": "a duration (such as PT1H30M)",
    "time_parsing": "a time (such as 10:30:00)",
    "time_type": "a time (such as 10:30:00)",
    "tuple_type": "an array",
    "url_type": "a URL",
    "uuid_parsing": "a UUID",
    "uuid_type": "a UUID",
}
"""The errors about a type. The words of the schema come first, since they name all its alternatives and limits."""

FACTS: Final[Mapping[str, str]] = {
    "recursion_depth_exceeded": "is nested too deeply",
    "recursion_loop": "is nested too deeply",
    "unexpected_positional_argument": "is one item too many",
    "multiple_argument_values": "is given twice",
}
MISSING_NAMES: Final = frozenset(
    {
        MISSING_PROBLEM,
        "missing",
        "missing_argument",
        "missing_keyword_only_argument",
        "missing_positional_only_argument",
    }
)
UNKNOWN_NAMES: Final = frozenset({EXTRA_PROBLEM, "extra_forbidden", "unexpected_keyword_argument"})
CONSEQUENCES: Final = frozenset({"default_factory_not_called"})
"""Errors that follow from another one."""

CLOCK_ERRORS: Final = frozenset({"date_past", "date_future", "datetime_past", "datetime_future"})
"""Errors whose value is quoted as a date: without quotation marks."""

PREDICATES: Final = {
    "str.islower": "be in lower case",
    "str.isupper": "be in upper case",
    "str.isdigit": "have only digits",
    "str.isascii": "have only ASCII characters",
    "math.isfinite": "be a finite number",
}

MSGSPEC_MESSAGES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Object missing required field `(?P<name>.+)`", "is required"),
        (r"Object contains unknown field `(?P<name>.+)`", "is not a known name"),
        (r"Expected `(?P<type>[^`]+)`(?:, got `[^`]+`)?", "must be {type}"),
        (r"Expected `(?:int|float)` (?P<sign>[<>]=?) (?P<bound>.+)", "must be {sign} {bound}"),
        (r"Expected `\w+` that's a multiple of (?P<bound>.+)", "must be a multiple of {bound}"),
        (r"Expected `(?P<noun>\w+)` of length (?P<sign>[<>]=) (?P<count>\d+)", "must have {sign} {count}"),
        (r"Expected `(?P<noun>array)` of (?P<sign>at \w+) length (?P<count>\d+).*", "must have {sign} {count}"),
        (r"Expected `(?P<noun>array)` of length (?P<count>\d+)(?: to \d+)?(?:, got .*)?", "must have {count}"),
        (r"Expected `str` matching regex '(?P<bound>.+)'", "must match the pattern {bound}"),
        (r"Expected `\w+` with a timezone component", "must have a time zone (such as 2026-11-29T10:00:00Z)"),
        (r"Expected `\w+` with no timezone component", "must have no time zone"),
        (r"Invalid (?:enum )?value .+", "must be one of the values in the schema"),
        (r"Invalid RFC3339 encoded datetime", "must be a date and time (such as 2026-11-29T10:00:00Z)"),
        (r"Invalid RFC3339 encoded date", "must be a date (YYYY-MM-DD)"),
        (r"Invalid RFC3339 encoded time", "must be a time (such as 10:30:00)"),
        (r"Invalid ISO8601 duration", "must be a duration (such as PT1H30M)"),
        (r"Invalid UUID", "must be a UUID"),
        (r"Invalid base64 encoded string", "must be valid base64"),
        (r"Invalid decimal string", "must be a decimal number (such as 12.50)"),
        (r"(?:Integer value|Number) out of range", "must be a number of at most 64 bits"),
    )
)  # fmt: skip
"""The messages of msgspec. The first one that matches as a whole counts."""

MSGSPEC_TYPES: Final = {
    "array": "an array", "bool": "true or false", "date": "a date", "datetime": "a date and time",
    "decimal": "a decimal number", "float": "a number", "int": "an integer", "null": "null",
    "object": "an object", "str": "a string", "time": "a time", "uuid": "a UUID",
}  # fmt: skip
MSGSPEC_NOUNS: Final = {"array": "item", "bytes": "byte", "object": "key", "str": "character"}
MSGSPEC_SIGNS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
