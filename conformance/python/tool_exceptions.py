"""Provokes the exceptions of real clients, and prints what the library says about each, as JSON.

Each client calls a port where nobody listens, a server that reads a request and closes, and one that
reads it and never answers.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable

import aiohttp
import botocore.config
import botocore.session
import grpc
import httpx
import psycopg
import pymongo
import pymysql
import redis
import redis.asyncio
import requests
import urllib3
from pymongo import errors as mongo
from redis import exceptions

from holdfast.tools.connection_failures import find_connection_failure

SECONDS = 0.4
HOST = "127.0.0.1"


def closed_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def serve(*, answers: bool) -> int:
    """A server that reads and then closes, or reads for ever; return its port."""
    server = socket.create_server((HOST, 0))

    def accept() -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=talk, args=[connection], daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection:
            while connection.recv(65536) and not answers:
                pass

    threading.Thread(target=accept, daemon=True).start()
    return int(server.getsockname()[1])


def url(port: int) -> str:
    return f"http://{HOST}:{port}/pay"


def call_httpx(port: int) -> None:
    httpx.post(url(port), timeout=SECONDS, trust_env=False)


def call_httpx_async(port: int) -> None:
    async def call() -> None:
        async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
            await client.post(url(port))

    asyncio.run(call())


def call_requests(port: int) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.post(url(port), timeout=SECONDS)


def call_urllib3(port: int) -> None:
    urllib3.PoolManager(timeout=SECONDS, retries=False).request("POST", url(port))


def call_urllib3_with_retries(port: int) -> None:
    urllib3.PoolManager(timeout=SECONDS, retries=urllib3.Retry(0)).request("GET", url(port))


def call_aiohttp(port: int) -> None:
    async def call() -> None:
        limit = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=limit) as session, session.post(url(port)):
            pass

    asyncio.run(call())


def call_grpc(port: int) -> None:
    with grpc.insecure_channel(f"{HOST}:{port}") as channel:
        channel.unary_unary("/bank/Pay")(b"", timeout=SECONDS)


def call_grpc_async(port: int) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            await channel.unary_unary("/bank/Pay")(b"", timeout=SECONDS)

    asyncio.run(call())


def call_botocore(port: int) -> None:
    session = botocore.session.get_session()
    config = botocore.config.Config(
        connect_timeout=SECONDS, read_timeout=SECONDS, retries={"max_attempts": 0}
    )
    client = session.create_client(
        "sqs",
        region_name="eu-west-1",
        endpoint_url=f"http://{HOST}:{port}",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config,
    )
    client.send_message(QueueUrl=url(port), MessageBody="pay")


def call_psycopg(port: int) -> None:
    psycopg.connect(host=HOST, port=port, dbname="x", user="x", connect_timeout=2)


def call_redis(port: int) -> None:
    client = redis.Redis(host=HOST, port=port, socket_timeout=SECONDS, retry=None, protocol=2)
    client.incr("paid")


def call_redis_async(port: int) -> None:
    async def call() -> None:
        client = redis.asyncio.Redis(
            host=HOST, port=port, socket_timeout=SECONDS, retry=None, protocol=2
        )
        async with client:
            await client.incr("paid")

    asyncio.run(call())


def call_pymongo(port: int) -> None:
    limit = int(SECONDS * 1000)
    with pymongo.MongoClient(
        HOST, port, serverSelectionTimeoutMS=limit, socketTimeoutMS=limit
    ) as client:
        client.bank.payments.insert_one({"amount": 5})


def call_pymysql(port: int) -> None:
    pymysql.connect(host=HOST, port=port, user="x", connect_timeout=1, read_timeout=1)


class FailingCall(grpc.RpcError):
    """A call that ends with any status."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        """Its status."""
        return self._code

    def details(self) -> str:
        """Its text."""
        return "Stream removed"


def describe(error: BaseException) -> dict[str, str | None]:
    found = find_connection_failure(error)
    kind = type(error)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "text": str(error)[:200],
        "says": None if found is None else found.value,
    }


def catch(call: Callable[[int], None], port: int) -> dict[str, str | None]:
    try:
        call(port)
    except Exception as error:  # noqa: BLE001  # REASON: this is what is looked for
        return describe(error)
    return {"class": "", "text": "no exception", "says": None}


def made() -> dict[str, dict[str, str | None]]:
    """Exceptions that are hard to provoke."""
    errors = {
        "pymongo.AutoReconnect": mongo.AutoReconnect("connection closed"),
        "pymongo.NotPrimaryError": mongo.NotPrimaryError("stepped down"),
        "pymongo.NetworkTimeout": mongo.NetworkTimeout("timed out"),
        "pymongo.WTimeoutError": mongo.WTimeoutError("waiting for replication timed out"),
        "pymongo.WaitQueueTimeoutError": mongo.WaitQueueTimeoutError("no connection free"),
        "pymongo.DuplicateKeyError": mongo.DuplicateKeyError("E11000"),
        "pymysql.OperationalError.2006": pymysql.OperationalError(2006, "server has gone away"),
        "pymysql.OperationalError.2013": pymysql.OperationalError(2013, "lost during query"),
        "pymysql.OperationalError.1213": pymysql.OperationalError(1213, "deadlock"),
        "pymysql.InterfaceError": pymysql.InterfaceError(0, ""),
        "redis.ConnectionError": exceptions.ConnectionError("Connection closed by server."),
        "redis.TimeoutError": exceptions.TimeoutError("Timeout reading from socket"),
        "redis.AuthenticationError": exceptions.AuthenticationError("WRONGPASS"),
        "redis.ResponseError": exceptions.ResponseError("WRONGTYPE"),
        **{f"grpc.{code.name}": FailingCall(code) for code in grpc.StatusCode},
    }
    return {name: describe(error) for name, error in errors.items()}


CALLS = [value for name, value in sorted(globals().items()) if name.startswith("call_")]


def main() -> None:
    ports = {
        "refused": closed_port(),
        "closed": serve(answers=True),
        "silent": serve(answers=False),
    }
    said = {
        call.__name__.removeprefix("call_"): {
            what: catch(call, port) for what, port in ports.items()
        }
        for call in CALLS
    }
    print(json.dumps({"provoked": said, "made": made()}))


if __name__ == "__main__":
    main()
