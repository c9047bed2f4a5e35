"""Webhooks that a test makes itself."""

from __future__ import annotations

import json

from apps.registration.tests.http.served_club import Reply, Served

from registration.providers import sign


async def send_webhook(club: Served, body: bytes, signature: str | None) -> Reply:
    headers = {} if signature is None else {"Webhook-Signature": signature}
    url = f"{club.address}/webhooks/payments"
    async with club.http.post(url, data=body, headers=headers) as response:
        return Reply(response.status, await response.json(), response.headers)


def make_webhook(club: Served, event: str = "EV1", **links: str) -> tuple[bytes, str]:
    body = json.dumps(
        {
            "events": [
                {
                    "id": event,
                    "resource": "payments",
                    "action": "confirmed",
                    "created_at": "2025-09-01T10:00:00Z",
                    "links": links,
                }
            ]
        }
    ).encode()
    return body, sign(body, club.providers.environment["REGISTRATION_WEBHOOK_SECRET"])
