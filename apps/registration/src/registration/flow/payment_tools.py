"""The tools of step 29: the payment request, the record, and the message with the link.

Each passes a key of the registration to its provider, and saves the outcome together with the
conversation. Where the outcome is not known (the provider's `Unanswered`, or a crash), the journal
says that it is in doubt, and its twin asks the provider by that key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from holdfast import tool
from holdfast.tools import ToolContext, ToolError
from registration.club.progress import Effect, Progress
from registration.flow.tool_scope import (
    Outcome,
    ToolScope,
    Work,
    find_player_of,
    find_registration_id,
    make_record,
)
from registration.outbox.kinds import (
    REQUEST_PAYMENT,
    SEND_PAYMENT_LINK,
    make_link_key,
    make_payment_key,
)
from registration.outbox.texts import (
    describe_payment,
    make_link_message,
    make_link_token,
    to_international,
)
from registration.providers.connection import ProviderFailure, Refused
from registration.providers.payments import BillingRequest
from registration.store import registrations
from registration.store.effects import EffectOf, find_effect, save_effect
from registration.store.outbox import NewJob, enqueue, hasten_job
from registration.store.tasks import NewTask, open_task
from registration.store.transaction import Transaction

_RECORD_SECONDS = 60.0
"""After this time a payment that was left for later is asked for, even if the turn has not ended."""

_NOT_NOW = "the provider does not answer now"


class PaymentTools:
    """The tools of step 29.

    Args:
        scope: changes conversations.
    """

    def __init__(self, scope: ToolScope) -> None:
        self._scope = scope
        self._parts = scope.parts

    def list_tools(self) -> list[Callable[..., object]]:
        """Return the tools."""
        return [
            self.request_payment,
            self.find_payment,
            self.save_registration,
            self.send_payment_link,
            self.find_payment_link,
            self.leave_for_later,
        ]

    @tool(effect="write", offered=False)
    async def request_payment(self, context: ToolContext) -> str:
        """Ask the payment provider for the signing fee and a mandate."""
        progress = await self._scope.find_progress(context, "request_payment")
        identity = find_registration_id(self._parts.settings, progress)
        try:
            made = await self._parts.payments.request(
                make_payment_key(identity),
                self._parts.settings.signing_fee,
                describe_payment(self._parts.settings),
                {"registration": identity},
            )
        except Refused as error:
            if error.temporary:
                raise ToolError(_NOT_NOW) from None
            return await self._refuse_payment(context, identity, error.reason)
        return await self._keep_payment(context, identity, made)

    @tool(effect="read", offered=False)
    async def find_payment(self, context: ToolContext) -> str:
        """Ask the payment provider what became of the request."""
        progress = await self._scope.find_progress(context, "request_payment")
        identity = find_registration_id(self._parts.settings, progress)
        try:
            made = await self._parts.payments.find(make_payment_key(identity))
        except ProviderFailure:
            raise ToolError(_NOT_NOW) from None
        return "none" if made is None else await self._keep_payment(context, identity, made)

    async def _keep_payment(self, context: ToolContext, identity: str, made: BillingRequest) -> str:
        def work(tx: Transaction, _progress: Progress) -> Outcome:
            outcome = {"billing_request": made.id}
            owner = EffectOf(registration_id=identity, session_id=context.session)
            save_effect(tx, make_payment_key(identity), outcome, owner, self._parts.now())
            return {"done": True, "registration": identity}

        return await self._scope.finish(context, "request_payment", work)

    async def _refuse_payment(self, context: ToolContext, identity: str, reason: str) -> str:
        def work(tx: Transaction, _progress: Progress) -> Outcome:
            open_task(
                tx,
                NewTask(
                    key=f"{make_payment_key(identity)}/refused",
                    kind="refused",
                    reason=f"the payment provider refused the request: {reason}",
                    registration_id=identity,
                    session_id=context.session,
                ),
                self._parts.now(),
            )
            return {"done": False, "registration": identity}

        return await self._scope.finish(context, "request_payment", work)

    @tool(effect="idempotent", offered=False)
    async def save_registration(self, context: ToolContext) -> str:
        """Save the record of the player."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            return save_record(self._scope, tx, context.session or "", progress)

        return await self._finish_and_wake(context, "save_registration", work)

    @tool(effect="write", offered=False)
    async def send_payment_link(self, context: ToolContext) -> str:
        """Send the message with the payment link."""
        progress = await self._scope.find_progress(context, "send_payment_link")
        identity = find_registration_id(self._parts.settings, progress)
        try:
            await self._parts.sms.send(
                make_link_key(identity),
                to_international(cast("str", progress.answers["parent_phone"])),
                make_link_message(self._parts.settings, identity, progress.answers),
            )
        except Refused as error:
            if not error.temporary:
                return await self._postpone_link(context, identity)
            raise ToolError(_NOT_NOW) from None
        return await self._keep_link(context, identity)

    @tool(effect="read", offered=False)
    async def find_payment_link(self, context: ToolContext) -> str:
        """Ask the SMS provider what became of the message."""
        progress = await self._scope.find_progress(context, "send_payment_link")
        identity = find_registration_id(self._parts.settings, progress)
        try:
            sent = await self._parts.sms.find(make_link_key(identity))
        except ProviderFailure:
            raise ToolError(_NOT_NOW) from None
        return "none" if sent is None else await self._keep_link(context, identity)

    async def _keep_link(self, context: ToolContext, identity: str) -> str:
        def work(tx: Transaction, _progress: Progress) -> Outcome:
            now = self._parts.now()
            owner = EffectOf(registration_id=identity, session_id=context.session)
            save_effect(tx, make_link_key(identity), {}, owner, now)
            registrations.update_registration(tx, identity, now, sms_status="sent")
            return {"sent": True}

        return await self._scope.finish(context, "send_payment_link", work)

    async def _postpone_link(self, context: ToolContext, identity: str) -> str:
        def work(tx: Transaction, _progress: Progress) -> Outcome:
            job = NewJob(make_link_key(identity), SEND_PAYMENT_LINK, {}, identity)
            enqueue(tx, job, self._parts.now())
            return {"sent": False}

        return await self._finish_and_wake(context, "send_payment_link", work)

    @tool(effect="idempotent", offered=False)
    async def leave_for_later(self, context: ToolContext, effect: str) -> str:
        """Leave an effect to the worker, which repeats it by its key, and go on.

        Args:
            context: the call.
            effect: the pending effect.
        """
        if effect == "request_payment":

            def request_later(tx: Transaction, progress: Progress) -> Outcome:
                identity = find_registration_id(self._parts.settings, progress)
                job = NewJob(make_payment_key(identity), REQUEST_PAYMENT, {}, identity)
                now = self._parts.now()
                enqueue(tx, job, now, now + _RECORD_SECONDS)  # or when the record is saved
                return {"done": False, "registration": identity}

            return await self._scope.finish(context, "request_payment", request_later)
        if effect == "send_payment_link":
            progress = await self._scope.find_progress(context, "send_payment_link")
            identity = find_registration_id(self._parts.settings, progress)
            return await self._postpone_link(context, identity)
        raise ToolError(f"{effect} cannot be left for later")

    async def _finish_and_wake(self, context: ToolContext, effect: Effect, work: Work) -> str:
        done = await self._scope.finish(context, effect, work)
        self._parts.new_jobs.set()
        return done


def save_record(scope: ToolScope, tx: Transaction, session: str, progress: Progress) -> Outcome:
    """Save the record of a conversation; one that another session made is not touched.

    Args:
        scope: the settings and the clock.
        tx: the transaction.
        session: the id of the session.
        progress: the conversation.
    """
    settings, now = scope.parts.settings, scope.parts.now()
    player = find_player_of(progress)
    siblings = registrations.count_siblings(
        tx, player.season, player.last, cast("str", progress.answers["parent_phone"])
    )
    new = make_record(settings, session, progress, siblings)
    saved = registrations.save_registration(tx, new, now)
    if saved.session_id != session:
        reason = "the player is registered already, by another conversation"
        task = NewTask(f"{new.id}/duplicate/{session}", "duplicate", reason, saved.id, session)
        open_task(tx, task, now)
        return {"saved": False}
    request = find_effect(tx, make_payment_key(saved.id))
    if request is not None:
        token = make_link_token(settings, saved.id)
        registrations.set_payment_request(
            tx, saved.id, cast("str", request["billing_request"]), token, now
        )
    hasten_job(tx, make_payment_key(saved.id), now)
    return {"saved": True, "registration": saved.id}
