"""What a season costs, in pence."""

from msgspec import Struct


class Fees(Struct, frozen=True):
    """The amounts of a season.

    Args:
        signing: Once, in pence.
        monthly: Each month, in pence.
        sibling_monthly: Each month for a player with the same surname and parent's mobile number as another, in pence.
        months: How many months are paid: from September to May.
    """

    signing: int = 4500
    monthly: int = 2750
    sibling_monthly: int = 2475
    months: int = 9


def choose_monthly_fee(fees: Fees, *, sibling: bool) -> int:
    """Return the fee of a month in pence."""
    return fees.sibling_monthly if sibling else fees.monthly


def show_pence(pence: int) -> str:
    """Return an amount as `£27.50`."""
    return f"£{pence // 100}.{pence % 100:02d}"
