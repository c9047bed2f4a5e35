"""Each route with a key of each scope: only those that it asks for pass, and others change nothing."""

from __future__ import annotations

import pytest
from tests.server.every_route import Caller, Trial, list_trials, make_protected_app
from tests.server.serving import serve
from tests.server.test_every_route_keeps_tenants_apart import copy_journal

from holdfast.server.access.principals import SCOPES

_EVERYBODY = {"", "any"}


def may(scopes: set[str], trial: Trial) -> bool:
    """Whether a key with these scopes may send a request."""
    return trial.scope in _EVERYBODY or "admin" in scopes or set(trial.scope.split()) <= scopes


async def test_a_request_without_a_key_is_refused() -> None:
    app = make_protected_app()
    async with serve(app) as base:
        owner, nobody = await Caller.make(app, base, "alpha", "admin"), Caller(base)
        found = await owner.build_world("ALPHA")
        for route, trial in list_trials(app):
            answer = await nobody.send(route.partition(" ")[0], trial, found)
            wanted = trial.scope != "" or "sign-in" in route
            assert (answer.status == 401) is wanted, (route, trial, answer)
            assert b"ALPHA" not in answer.body
        await owner.close()
        await nobody.close()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_with_one_scope_passes_where_it_is_asked_for(scope: str) -> None:
    app = make_protected_app()
    async with serve(app) as base:
        owner = await Caller.make(app, base, "alpha", "admin")
        caller = await Caller.make(app, base, "alpha", scope)
        found = await owner.build_world("ALPHA")
        before = await copy_journal(app, "alpha")
        allowed = []
        for route, trial in list_trials(app):
            if may({scope}, trial):
                allowed.append((route, trial))
                continue
            answer = await caller.send(route.partition(" ")[0], trial, found)
            if scope == "read:redacted" and may({"read"}, trial):
                assert b"ALPHA" not in answer.body, (route, answer)
            else:
                assert answer.status == 403, (route, trial, answer)
        assert await copy_journal(app, "alpha") == before
        for route, trial in allowed:
            answer = await caller.send(route.partition(" ")[0], trial, found)
            is_wrong_key = "sign-in" in route
            assert answer.status not in ((403,) if is_wrong_key else (401, 403)), (route, answer)
        await owner.close()
        await caller.close()
