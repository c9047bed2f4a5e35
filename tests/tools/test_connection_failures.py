"""Which exceptions leave open whether a tool acted, of whatever package, through whatever causes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import ftplib
import http.client
import imaplib
import smtplib
import socket
import ssl
import subprocess
import urllib.error
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from itertools import product
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import httpx
import psycopg
import pytest
import requests
import urllib3.exceptions as urllib3
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, ToolError, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ProviderError
from holdfast.core.messages import ToolCall
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.connection_failures import ConnectionFailure, find_connection_failure
from holdfast.tools.tool_failures import failure_info

POOL: Any = None
KEY = ConnectionKey("h", 1, False, True, None, None, None)


class CardTimedOutError(Exception):
    """A class of a library that nobody knows."""


class LostConnection(Exception):
    pass


class ServerDisconnected(Exception):
    pass


class PaymentConnectTimeout(Exception):
    pass


class ConnectTimeout(Exception):
    pass


class AccountNotFound(Exception):
    pass


class PaymentTimeout(AccountNotFound):
    pass


class HalfOpenError(LostConnection):
    pass


OPEN = [
    TimeoutError(),
    TimeoutError(),
    concurrent.futures.TimeoutError(),
    subprocess.TimeoutExpired("pay", 3),
    EOFError(),
    asyncio.IncompleteReadError(b"", 3),
    imaplib.IMAP4.abort("command: SELECT => socket error: EOF"),
    smtplib.SMTPServerDisconnected("Connection unexpectedly closed"),
    http.client.RemoteDisconnected("closed"),
    http.client.IncompleteRead(b""),
    http.client.BadStatusLine("?"),
    ftplib.error_temp("426 Connection closed"),
    ConnectionResetError(),
    ConnectionAbortedError(),
    BrokenPipeError(),
    OSError(errno.ETIMEDOUT, "x"),
    # Linux says so too of a connection on which a request was sent.
    OSError(errno.EHOSTUNREACH, "x"),
    ssl.SSLEOFError(8, "EOF"),
    ssl.SSLZeroReturnError(6, "closed"),
    BrokenProcessPool("terminated abruptly"),
    urllib.error.URLError(TimeoutError()),
    anyio.BrokenResourceError(),
    anyio.EndOfStream(),
    httpx.ReadTimeout("x"),
    httpx.WriteTimeout("x"),
    httpx.ReadError("x"),
    httpx.RemoteProtocolError("x"),
    requests.ReadTimeout(),
    requests.Timeout(),
    requests.ConnectionError(urllib3.ProtocolError("aborted", ConnectionResetError())),
    requests.exceptions.ChunkedEncodingError(),
    urllib3.ReadTimeoutError(POOL, "/", "x"),
    urllib3.ProtocolError("x"),
    urllib3.MaxRetryError(POOL, "/", urllib3.ReadTimeoutError(POOL, "/", "x")),
    aiohttp.ServerTimeoutError(),
    aiohttp.SocketTimeoutError(),
    aiohttp.ServerDisconnectedError(),
    aiohttp.ClientPayloadError(),
    aiohttp.ClientConnectionResetError(),
    aiohttp.ClientOSError(errno.ECONNRESET, "x"),
    psycopg.OperationalError("server closed the connection unexpectedly"),
    psycopg.errors.AdminShutdown(),
    psycopg.errors.ConnectionFailure(),
    psycopg.errors.StatementCompletionUnknown(),
    CardTimedOutError(),
    LostConnection(),
    ServerDisconnected(),
    PaymentConnectTimeout(),
    PaymentTimeout(),
    HalfOpenError(),
    ExceptionGroup("x", [ConnectionRefusedError(), TimeoutError()]),
    ExceptionGroup("x", [AccountNotFound(), ExceptionGroup("y", [EOFError()])]),
    ProviderError("x", info=ErrorInfo(category=ErrorCategory.TIMEOUT, safe="x")),
]

NOT_SENT = [
    ConnectionRefusedError(),
    OSError(errno.ECONNREFUSED, "x"),
    socket.gaierror(socket.EAI_NONAME, "x"),
    ssl.SSLCertVerificationError(),
    smtplib.SMTPConnectError(421, "busy"),
    http.client.CannotSendRequest(),
    urllib.error.URLError(ConnectionRefusedError()),
    urllib.error.URLError(socket.gaierror()),
    httpx.ConnectError("x"),
    httpx.ConnectTimeout("x"),
    httpx.PoolTimeout("x"),
    requests.ConnectTimeout(),
    requests.exceptions.ProxyError(),
    requests.ConnectionError(
        urllib3.MaxRetryError(POOL, "/", urllib3.NewConnectionError(POOL, "refused"))
    ),
    requests.exceptions.SSLError(
        urllib3.MaxRetryError(POOL, "/", urllib3.SSLError(ssl.SSLCertVerificationError()))
    ),
    urllib3.ConnectTimeoutError(),
    urllib3.NameResolutionError("h", POOL, socket.gaierror()),
    aiohttp.ClientConnectorError(KEY, ConnectionRefusedError()),
    aiohttp.ConnectionTimeoutError(),
    psycopg.OperationalError("connection failed: connection to server at ... refused"),
    psycopg.errors.ConnectionTimeout("connection timeout expired"),
    psycopg.errors.CannotConnectNow(),
    psycopg.errors.TooManyConnections(),
    ConnectTimeout(),
    ExceptionGroup("x", [ConnectionRefusedError(), socket.gaierror()]),
]

SILENT = [
    ValueError("x"),
    KeyError("timeout"),
    AccountNotFound(),
    FileNotFoundError(),
    PermissionError(),
    ToolError("The connection timed out."),
    requests.HTTPError(),
    psycopg.errors.DeadlockDetected(),
    psycopg.errors.QueryCanceled(),
    ExceptionGroup("x", [ConnectionRefusedError(), AccountNotFound()]),
]


def _name(error: Exception) -> str:
    return type(error).__name__


def test_it_is_open_whether_the_tool_acted() -> None:
    for error in OPEN:
        found = find_connection_failure(error)
        assert found is not None, error
        assert found.is_in_doubt, error
        info = failure_info(error, "pay")
        assert info.landed is Landed.UNKNOWN
        assert info.category.is_retryable


@pytest.mark.parametrize("error", NOT_SENT, ids=_name)
def test_nothing_was_sent(error: Exception) -> None:
    assert find_connection_failure(error) is ConnectionFailure.NOT_SENT
    assert failure_info(error, "pay").landed is Landed.NO


@pytest.mark.parametrize("error", SILENT, ids=_name)
def test_it_says_nothing_about_a_connection(error: Exception) -> None:
    assert find_connection_failure(error) is None


def test_it_is_found_through_causes() -> None:
    wraps = (raise_from, raise_during, raise_from_none, twice(raise_from), as_argument)
    for wrap, error in product(wraps, OPEN):
        found = find_connection_failure(wrap(AccountNotFound("x"), error))
        assert found is not None, (wrap, error)
        assert found.is_in_doubt, (wrap, error)


def test_a_second_way_that_did_not_connect_does_not_undo_the_first() -> None:
    for error, second in product(OPEN, (ConnectionRefusedError(), connected_late())):
        found = find_connection_failure(raise_during(second, error))
        assert found is not None, error
        assert found.is_in_doubt, error


def connected_late() -> Exception:
    return raise_from(httpx.ConnectError("x"), ConnectionRefusedError())


@pytest.mark.parametrize("error", NOT_SENT, ids=_name)
def test_a_reason_proves_nothing_for_a_class_that_says_nothing(error: Exception) -> None:
    # The tool may have acted before, as far as its exception tells.
    assert find_connection_failure(raise_from(AccountNotFound(), error)) is None
    lost = find_connection_failure(raise_from(LostConnection(), error))
    assert lost is ConnectionFailure.NOT_SENT


def test_a_first_way_that_did_not_connect_proves_nothing_for_the_second() -> None:
    error = raise_during(LostConnection(), ConnectionRefusedError())
    assert find_connection_failure(error) is ConnectionFailure.LOST


@pytest.mark.parametrize("error", [httpx.ReadError("x"), urllib3.ProtocolError("x")], ids=_name)
def test_a_class_of_a_connection_that_was_made_is_open_whatever_it_wraps(error: Exception) -> None:
    found = find_connection_failure(raise_from(error, ConnectionRefusedError()))
    assert found is ConnectionFailure.LOST


@pytest.mark.parametrize(
    ("second", "first"),
    [
        (httpx.ConnectError("backup"), httpx.ReadTimeout("primary")),
        (ConnectionRefusedError(), TimeoutError()),
    ],
    ids=["httpx", "builtins"],
)
def test_an_earlier_way_of_the_same_package_may_have_acted(
    second: Exception, first: Exception
) -> None:
    found = find_connection_failure(raise_from(second, first))
    assert found is ConnectionFailure.TIMED_OUT


def mysql_error(package: str, name: str, *values: object) -> Exception:
    """Return an exception as the clients of MySQL raise it, whose packages are not needed."""
    base = type("DatabaseError", (Exception,), {"__module__": f"{package}.errors"})
    return type(name, (base,), {"__module__": f"{package}.errors"})(*values)


@pytest.mark.parametrize("package", ["pymysql", "asyncmy", "MySQLdb", "mysql.connector", "mariadb"])
def test_the_code_of_an_error_of_mysql_decides(package: str) -> None:
    def judge(name: str, code: int, text: str) -> ConnectionFailure | None:
        return find_connection_failure(mysql_error(package, name, code, text))

    gone, lost = (2006, "MySQL server has gone away"), (2013, "Lost connection during query")
    assert judge("OperationalError", *gone) is ConnectionFailure.LOST
    assert judge("OperationalError", *lost) is ConnectionFailure.LOST
    assert judge("InterfaceError", 0, "") is ConnectionFailure.LOST
    assert judge("OperationalError", 2003, "Can't connect") is ConnectionFailure.NOT_SENT
    assert judge("OperationalError", 1040, "Too many connections") is ConnectionFailure.NOT_SENT
    # The server answered: nothing is open.
    assert judge("OperationalError", 1205, "Lock wait timeout exceeded") is None
    assert judge("OperationalError", 1213, "Deadlock found") is None
    assert judge("IntegrityError", 1062, "Duplicate entry") is None


def test_an_error_of_mysql_that_names_its_code_beside_its_text() -> None:
    error = mysql_error("mysql.connector", "OperationalError", "2013: Lost connection")
    error.errno, error.sqlstate = 2013, "HY000"  # type: ignore[attr-defined]
    assert find_connection_failure(error) is ConnectionFailure.LOST
    error = mysql_error("mysql.connector", "ReadTimeoutError", "3024")
    error.errno = 3024  # type: ignore[attr-defined]
    assert find_connection_failure(error) is ConnectionFailure.TIMED_OUT


def test_a_connection_of_mysql_that_was_not_made_in_time() -> None:
    error = mysql_error("pymysql", "OperationalError", 2003, "Can't connect (timed out)")
    error.original_exception = TimeoutError()  # type: ignore[attr-defined]
    raised = raise_during(error, error.original_exception)  # type: ignore[attr-defined]
    assert find_connection_failure(raised) is ConnectionFailure.NOT_SENT


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("ConnectionRefused", ConnectionFailure.NOT_SENT),
        ("Connection_Refused_Error", ConnectionFailure.NOT_SENT),
        ("ConnectTimeoutException", ConnectionFailure.NOT_SENT),
        ("NotRefusedTimeout", ConnectionFailure.TIMED_OUT),
        ("NotConnectionRefusedTimeout", ConnectionFailure.TIMED_OUT),
        ("ConnectionRefusedOrLost", ConnectionFailure.LOST),
        ("SecondConnectionRefused", ConnectionFailure.LOST),
    ],
)
def test_only_a_whole_name_proves_that_nothing_was_sent(
    name: str, failure: ConnectionFailure
) -> None:
    error = type(name, (Exception,), {"__module__": "bank"})()
    assert find_connection_failure(error) is failure


class RpcError(Exception):
    """As the errors of gRPC, whose package is not needed."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(code)
        self._code, self._details = code, details

    def code(self) -> SimpleNamespace:
        return SimpleNamespace(name=self._code)

    def details(self) -> str:
        return self._details


RpcError.__module__ = "grpc"


@pytest.mark.parametrize(
    ("code", "details", "failure"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses; x", ConnectionFailure.NOT_SENT),
        ("UNAVAILABLE", "charged: failed to connect to all addresses", ConnectionFailure.LOST),
        ("INTERNAL", "failed to connect to all addresses; x", ConnectionFailure.LOST),
        ("NOT_FOUND", "no such account", None),
    ],
)
def test_a_server_of_grpc_cannot_say_that_nothing_was_sent(
    code: str, details: str, failure: ConnectionFailure | None
) -> None:
    assert find_connection_failure(RpcError(code, details)) is failure


def raise_from(error: Exception, cause: Exception) -> Exception:
    try:
        raise error from cause
    except type(error) as raised:
        return raised


def raise_during(error: Exception, handled: Exception) -> Exception:
    try:
        try:
            raise handled
        except type(handled):
            raise error  # noqa: B904  # REASON: this is what is tested
    except type(error) as raised:
        return raised


def raise_from_none(error: Exception, handled: Exception) -> Exception:
    raised = raise_during(error, handled)
    raised.__suppress_context__ = True
    return raised


def as_argument(error: Exception, reason: Exception) -> Exception:
    return type(error)("it failed", reason)


Wrap = Callable[[Exception, Exception], Exception]


def twice(wrap: Wrap) -> Wrap:
    return lambda error, cause: wrap(AccountNotFound(), wrap(error, cause))


def test_causes_in_a_circle_and_without_end() -> None:
    one, other = AccountNotFound(), AccountNotFound()
    one.__cause__, other.__cause__ = other, one
    one.__context__, other.__context__ = one, one
    assert find_connection_failure(one) is None
    chain = AccountNotFound()
    for _ in range(5_000):
        outer = AccountNotFound()
        outer.__cause__ = chain
        chain = outer
    found = find_connection_failure(chain)
    assert found is not None  # nobody knows what is at its end
    assert found.is_in_doubt


class Hostile(Exception):
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no")


ERRORS = st.sampled_from([*OPEN, *NOT_SENT, *SILENT]) | st.builds(Hostile)


@given(
    st.recursive(
        ERRORS,
        lambda inner: st.builds(
            ExceptionGroup, st.just("x"), st.lists(inner, min_size=1, max_size=3)
        ),
    )
)
def test_a_group_is_open_if_one_member_is(error: Exception) -> None:
    def leaves(one: BaseException) -> list[BaseException]:
        if isinstance(one, BaseExceptionGroup):
            return [leaf for member in one.exceptions for leaf in leaves(member)]
        return [one]

    verdicts = [find_connection_failure(leaf) for leaf in leaves(error)]
    found = find_connection_failure(error)
    doubtful = any(one is not None and one.is_in_doubt for one in verdicts)
    assert doubtful == (found is not None and found.is_in_doubt)


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (subprocess.TimeoutExpired("pay", 3), 1),
        (imaplib.IMAP4.abort("EOF"), 1),
        (EOFError(), 1),
        (raise_from(ValueError("x"), CardTimedOutError()), 1),
        (httpx.ReadTimeout("x"), 1),
        (ConnectionRefusedError(), 4),
        (httpx.ConnectTimeout("x"), 4),
        (ValueError("x"), 4),
    ],
    ids=lambda value: _name(value) if isinstance(value, Exception) else "",
)
async def test_how_often_a_plain_tool_runs(error: Exception, times: int) -> None:
    ran: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        ran.append("pay")
        raise error

    model = ScriptedModel(ToolCall("1", "pay", "{}"), "done")
    result = await Agent(model, tools=[pay], clock=FakeClock()).run("go")
    assert result.output == "done"
    assert len(ran) == times
