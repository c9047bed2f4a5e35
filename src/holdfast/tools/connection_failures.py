"""The table of exceptions that leave open whether a tool acted, and of those that prove it did not.

After a timeout or a lost connection nobody knows whether the other side acted. If no connection was
made, nothing was sent. The classes are named by package and name, so none of their packages is
imported. An exception that is not in the table counts by its own name and by its causes. This module
must never call code of an exception except `code()` and `details()` of gRPC and `__str__`, whose errors
it ignores.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from holdfast.core.errors import ErrorCategory, HoldfastError, Landed, read_error_info

_DEEPEST: Final = 24
_MOST: Final = 1_000
_LONGEST_TEXT: Final = 2_000


class ConnectionFailure(Enum):
    """The state of a connection that an exception shows."""

    TIMED_OUT = "timed_out"
    """No answer came in time: the tool may have acted."""
    LOST = "lost"
    """The connection broke: the tool may have acted."""
    NOT_SENT = "not_sent"
    """There was no connection, or the other side took no request: the tool did not act."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether the tool may have acted."""
        return self is not ConnectionFailure.NOT_SENT


_LOST, _TIMED_OUT, _NOT_SENT = (
    ConnectionFailure.LOST,
    ConnectionFailure.TIMED_OUT,
    ConnectionFailure.NOT_SENT,
)

_ANSWERED: Final = (
    "builtins FileExistsError FileNotFoundError IsADirectoryError NotADirectoryError PermissionError",
    "requests HTTPError",
    "urllib HTTPError",
)
"""Subclasses of the classes below that say nothing about a connection."""

_TABLE: Final = {
    _TIMED_OUT: (
        "builtins TimeoutError",
        "subprocess TimeoutExpired",
        "httpx ReadTimeout WriteTimeout TimeoutException",
        "httpcore ReadTimeout WriteTimeout TimeoutException",
        "requests ReadTimeout Timeout",
        "urllib3 ReadTimeoutError TimeoutError",
        "aiohttp ServerTimeoutError SocketTimeoutError",
        "botocore ReadTimeoutError",
        "redis TimeoutError",
        "pymongo NetworkTimeout ExecutionTimeout WTimeoutError",
        "trio TooSlowError",
    ),
    _LOST: (
        "builtins OSError EOFError",
        "asyncio IncompleteReadError",
        "concurrent BrokenExecutor",
        "http HTTPException",
        "imaplib IMAP4.abort",
        "ftplib error_temp error_proto",
        "anyio BrokenResourceError ClosedResourceError EndOfStream BrokenWorkerProcess",
        "trio BrokenResourceError ClosedResourceError",
        "httpx RequestError",
        "httpcore NetworkError ProtocolError ReadError WriteError RemoteProtocolError",
        "requests RequestException",
        "urllib3 MaxRetryError ProtocolError IncompleteRead SSLError",
        "aiohttp ClientConnectionError ClientOSError ClientPayloadError ServerConnectionError",
        "botocore HTTPClientError ConnectionClosedError ResponseStreamingError IncompleteReadError",
        "psycopg OperationalError InterfaceError",
        "asyncpg InterfaceError",
        "pymysql OperationalError InterfaceError",
        "asyncmy OperationalError InterfaceError",
        "mysql OperationalError InterfaceError",
        "mariadb OperationalError InterfaceError",
        "MySQLdb OperationalError InterfaceError",
        "redis ConnectionError",
        "pymongo ConnectionFailure WriteConcernError",
    ),
    _NOT_SENT: (
        "builtins ConnectionRefusedError",
        "socket gaierror herror",
        "ssl SSLCertVerificationError",
        "http InvalidURL NotConnected CannotSendRequest CannotSendHeader UnknownProtocol",
        "smtplib SMTPConnectError SMTPHeloError SMTPNotSupportedError",
        "httpx ConnectError ConnectTimeout PoolTimeout ProxyError UnsupportedProtocol LocalProtocolError",
        "httpcore ConnectError ConnectTimeout PoolTimeout ProxyError UnsupportedProtocol",
        "httpcore LocalProtocolError ConnectionNotAvailable",
        "requests ConnectTimeout ProxyError MissingSchema InvalidSchema InvalidURL InvalidHeader",
        "requests InvalidProxyURL",
        "urllib3 NewConnectionError ConnectTimeoutError NameResolutionError ProxyError",
        "urllib3 EmptyPoolError ClosedPoolError",
        "aiohttp ClientConnectorError ClientConnectorCertificateError ClientProxyConnectionError",
        "aiohttp ConnectionTimeoutError ServerFingerprintMismatch",
        "botocore EndpointConnectionError ConnectTimeoutError ProxyConnectionError",
        "psycopg ConnectionTimeout",
        "mysql ConnectionTimeoutError",
        "psycopg_pool PoolTimeout PoolClosed TooManyRequests",
        "redis AuthenticationError AuthorizationError BusyLoadingError MaxConnectionsError",
        "pymongo ServerSelectionTimeoutError WaitQueueTimeoutError",
    ),
}
"""The classes and their subclasses; the class nearest to the exception decides."""

_BY_CLASS: Final[dict[str, ConnectionFailure | None]] = {
    f"{package}.{name}": failure
    for failure, rows in ((None, _ANSWERED), *_TABLE.items())
    for package, *names in map(str.split, rows)
    for name in names
}

_HAD_CONNECTION: Final = frozenset(
    f"{package}.{name}"
    for package, *names in map(
        str.split,
        (
            "httpx ReadError WriteError CloseError RemoteProtocolError",
            "httpcore ReadError WriteError RemoteProtocolError",
            "urllib3 ProtocolError IncompleteRead",
            "aiohttp ServerDisconnectedError ClientPayloadError",
        ),
    )
    for name in names
)
"""These are raised on a connection that was made, even if they wrap another error."""

_BY_GRPC_CODE: Final = {
    "DEADLINE_EXCEEDED": _TIMED_OUT,
    "UNAVAILABLE": _LOST,
    "CANCELLED": _LOST,
    "UNKNOWN": _LOST,
    "INTERNAL": _LOST,
    "DATA_LOSS": _LOST,
}

_BY_SQLSTATE: Final = {
    "08001": _NOT_SENT,  # the client could not connect
    "08004": _NOT_SENT,  # the server refused the connection
    "53300": _NOT_SENT,  # too many connections
    "57P03": _NOT_SENT,  # cannot connect now
    "40003": _LOST,  # whether the statement was completed is unknown
    "57P01": _LOST,  # the server was shut down
    "57P02": _LOST,  # it crashed
    "57P05": _LOST,  # the session was idle for too long
    "25P03": _LOST,
}

_MYSQL_CLIENTS: Final = frozenset({"pymysql", "asyncmy", "mysql", "mariadb", "MySQLdb"})

_BY_MYSQL_CODE: Final = {
    **dict.fromkeys((1040, 1203), _NOT_SENT),  # too many connections
    **dict.fromkeys((1129, 1130), _NOT_SENT),  # the server accepts no connection of this host
    **dict.fromkeys((2002, 2003, 2005), _NOT_SENT),  # the client could not connect
    **dict.fromkeys((1053, 1079, 1080), _LOST),  # the server was shut down
    **dict.fromkeys((1152, 1184, 1927, 3169, 4031), _LOST),  # it ended the connection
    **dict.fromkeys((1158, 1159, 1160, 1161), _LOST),  # it could not read or write
    **dict.fromkeys((2006, 2013, 2026, 2027, 2048, 2055), _LOST),  # the client lost the connection
}
"""The codes of MySQL and MariaDB. A class says little, because their clients use it for most errors of a server."""

_ANY_MYSQL_ERROR: Final = frozenset({"OperationalError", "InterfaceError"})

# These packages raise the same class for a connection that failed and for one that was lost. The client
# of Redis does too, but it repeats a command by itself, so its last text proves nothing.
_NEVER_SENT_TEXT: Final = {
    "psycopg": re.compile(
        r"^(?:connection failed|connection to server at|could not connect|could not translate host"
        r"|failed to resolve host|couldn't get a connection)"
    ),
    "grpc": re.compile(r"failed to connect to all addresses|DNS resolution failed"),
}

_TIMED_OUT_NAME: Final = re.compile(r"(?i:time[ds]?_?out)|Deadline|DEADLINE")
_LOST_NAME: Final = re.compile(
    r"(?i:disconnect|hang_?up|broken_?pipe|connection_?(?:is_?)?(?:error|fail|lost|loss|close|reset|refus"
    r"|abort|broken|drop|terminat|interrupt|gone)|(?:lost|clos|reset|broken|dropped|no)\w{0,3}_?connection)"
)
_REFUSED_NAME: Final = re.compile(
    r"(?i:(?:connect_?timeout|connection_?refused)(?:_?(?:error|exception))?)"
)


def find_connection_failure(error: BaseException) -> ConnectionFailure | None:
    """Return the state of a connection that an exception and its causes show; None if they show none.

    A cause that leaves open whether the tool acted is enough, and so is an exception that was handled
    when this one was raised. `NOT_SENT` is proved by the exception itself or by its cause.

    >>> find_connection_failure(TimeoutError())
    <ConnectionFailure.TIMED_OUT: 'timed_out'>
    >>> find_connection_failure(ConnectionRefusedError())
    <ConnectionFailure.NOT_SENT: 'not_sent'>
    >>> find_connection_failure(ValueError("no such account"))
    """
    search = _Search()
    found = search.judge(error)
    # A tool may have tried another way after its first one: the exception that it handled counts too.
    while search.handled and (found is None or not found.is_in_doubt):
        before = search.judge(search.handled.pop())
        if before is not None and before.is_in_doubt:
            return before
    return found


class _Search:
    """One walk through an exception and its causes, which may be a graph with cycles."""

    __slots__ = ("_seen", "handled")

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.handled: list[BaseException] = []
        """The exceptions that were being handled when those that were judged were raised."""

    def judge(self, error: BaseException, depth: int = 0) -> ConnectionFailure | None:
        """Return the verdict about an exception and the exceptions that it wraps."""
        if id(error) in self._seen:
            return None
        if depth > _DEEPEST or len(self._seen) >= _MOST:
            return _LOST  # the rest may show anything
        self._seen.add(id(error))
        causes = list(_find_wrapped(error))
        wrapped = [self.judge(one, depth + 1) for one in causes]
        if error.__context__ is not None:
            self.handled.append(error.__context__)
        if isinstance(error, BaseExceptionGroup):
            return _join_members(wrapped)
        own = _judge_class(error)
        if own is _NOT_SENT:
            # A cause of another package is the lower layer of this attempt; one of the same package is
            # an earlier attempt, such as that to the first of two servers.
            earlier = [
                said for said, one in zip(wrapped, causes, strict=True) if _is_peer(one, error)
            ]
            return next((one for one in earlier if one is not None and one.is_in_doubt), own)
        doubt = next((one for one in wrapped if one is not None and one.is_in_doubt), None)
        if doubt is not None:
            return own or doubt
        # A class that says nothing may be raised after other work: its reason proves nothing.
        is_open = own is None or bool({*map(_name_class, type(error).__mro__)} & _HAD_CONNECTION)
        return own if is_open or _NOT_SENT not in wrapped else _NOT_SENT


def _name_class(kind: type) -> str:
    """Return the name of a class by package; httpx2 and psycopg2 have the classes of httpx and psycopg."""
    return f"{kind.__module__.partition('.')[0].removesuffix('2')}.{kind.__qualname__}"


def _is_peer(one: BaseException, other: BaseException) -> bool:
    """Whether the classes of two exceptions are of one package."""
    first, second = (_name_class(type(error)).partition(".")[0] for error in (one, other))
    return first == second


def _join_members(members: list[ConnectionFailure | None]) -> ConnectionFailure | None:
    for member in members:
        if member is not None and member.is_in_doubt:
            return member
    return _NOT_SENT if members and all(one is _NOT_SENT for one in members) else None


def _find_wrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that an exception names as its reason."""
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    candidates = [error.__cause__, *error.args[:4]]
    # urllib3 and urllib, SQLAlchemy, aiohttp, pymysql, botocore
    names = ("reason", "orig", "os_error", "original_error", "original_exception", "error")
    candidates += [_read(error, name) for name in names]
    if isinstance(options := _read(error, "kwargs"), Mapping):
        candidates.append(options.get("error"))
    for one in candidates:
        if isinstance(one, BaseException):
            yield one


def _judge_class(error: BaseException) -> ConnectionFailure | None:
    """Return the verdict of the exception's own class, code and text."""
    if isinstance(error, HoldfastError):
        return _judge_info(error)
    # Other codes, such as EHOSTUNREACH, also end a connection on which a request was sent.
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return _NOT_SENT
    mysql_code = _read_mysql_code(error)
    if mysql_code in _BY_MYSQL_CODE:
        return _BY_MYSQL_CODE[mysql_code]
    state = not mysql_code and (_read(error, "sqlstate") or _read(error, "pgcode"))
    if isinstance(state, str) and state:  # the code of a server of PostgreSQL
        return _BY_SQLSTATE.get(state, _LOST if state.startswith("08") else None)
    return _judge_type(error, answered=mysql_code > 0)


def _judge_type(error: BaseException, *, answered: bool) -> ConnectionFailure | None:
    """Return the verdict of the nearest class of an exception that has one.

    Args:
        error: the exception.
        answered: whether it has a code of a server of MySQL.
    """
    for kind in type(error).__mro__:
        key = _name_class(kind)
        package = key.partition(".")[0]
        if key == "grpc.RpcError":
            return _judge_grpc(error)
        if key in _BY_CLASS:
            if answered and kind.__name__ in _ANY_MYSQL_ERROR:
                return None
            never_sent = _NEVER_SENT_TEXT.get(package)
            if never_sent is not None and never_sent.search(_read_text(error)):
                return _NOT_SENT
            return _BY_CLASS[key]
        if package != "builtins" and (failure := _judge_name(kind.__name__)) is not None:
            return failure
    return None


def _read_mysql_code(error: BaseException) -> int:
    """Return the code of an error of MySQL; 0 if it has none."""
    packages = {_name_class(kind).partition(".")[0] for kind in type(error).__mro__}
    if not packages & _MYSQL_CLIENTS:
        return 0
    for code in (_read(error, "errno"), *error.args[:1]):
        if type(code) is int:
            return code
    return 0


def _judge_name(name: str) -> ConnectionFailure | None:
    """Judge a class that is in no table by its name."""
    if _REFUSED_NAME.fullmatch(name):
        return _NOT_SENT
    if _TIMED_OUT_NAME.search(name):
        return _TIMED_OUT
    return _LOST if _LOST_NAME.search(name) else None


def _judge_info(error: HoldfastError) -> ConnectionFailure | None:
    info = read_error_info(error)
    if info.landed is Landed.NO:
        return _NOT_SENT
    if info.category is ErrorCategory.TIMEOUT:
        return _TIMED_OUT
    return _LOST if info.category is ErrorCategory.TRANSIENT and info.status is None else None


def _judge_grpc(error: BaseException) -> ConnectionFailure | None:
    code, details = _call(error, "code"), _call(error, "details")
    name = str(_read(code, "name"))
    # A server may quote the same words of a call of its own, with another code or after other words.
    if name == "UNAVAILABLE" and isinstance(details, str):
        never = _NEVER_SENT_TEXT["grpc"].match(details[:_LONGEST_TEXT])
        return _NOT_SENT if never else _LOST
    return _BY_GRPC_CODE.get(name)


def _call(holder: object, name: str) -> object:
    method = _read(holder, name)
    try:
        return method() if callable(method) else method
    except Exception:  # noqa: BLE001  # REASON: the method is the code of a library
        return None


def _read(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001  # REASON: a property is the code of a library
        return None


def _read_text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001  # REASON: `__str__` is the code of a library
        return ""
