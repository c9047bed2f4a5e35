"""What the tool of an approved call acts on: the judged paths, the content that was shown, the confinement.

It must never hold more than what was judged.
"""

from __future__ import annotations

from adh.approval.found_programs import find_search_path
from adh.approval.judged_calls import JudgedCall
from adh.approval.setup import ApprovalSetup
from adh.checks.confinement import confine_words
from adh.checks.protected_places import list_hidden
from adh.checks.url_check import is_allowed_host
from adh.storage.approved_calls import ApprovedCall


def make_approved_call(judged: JudgedCall, setup: ApprovalSetup) -> ApprovedCall:
    """Return what the tool of a call acts on.

    Args:
        judged: the call.
        setup: what the approval works with.
    """
    facts, hosts = judged.facts, judged.private_hosts
    search_path = find_search_path(facts, setup.places)
    content = {}
    if judged.preview.digest and judged.allowed_by == "person":
        content[judged.preview.path] = judged.preview.digest
    return ApprovedCall(
        paths={use.written: use.path for use in facts.paths},
        content=content,
        private_addresses=bool(facts.urls)
        and all(is_allowed_host(url, hosts) for url in facts.urls),
        command_prefix=_find_prefix(judged, setup),
        environment={"PATH": search_path} if search_path else {},
    )


def _find_prefix(judged: JudgedCall, setup: ApprovalSetup) -> tuple[str, ...]:
    """Return the words that confine a command whose rule asks for the check `sandbox`."""
    facts = judged.facts
    if "executes_process" not in facts.effects or "sandbox" not in judged.decision.checks:
        return ()
    hidden = list_hidden(facts.home, setup.own_folders)
    return confine_words(setup.confinement, facts.project, facts.folder, hidden)
