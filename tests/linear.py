"""Whether work grows with its size and no faster, told by the time of the processor.

Whoever shares the machine may slow a try down and can never speed one up, so that one quick try of
the large size is enough.
"""

from collections.abc import Callable


def is_linear(
    seconds: Callable[[int], float],
    few: int,
    many: int,
    *,
    slack: float = 5.0,
    least: float = 0.002,
) -> bool:
    """Whether `many` take no longer than their share of what `few` take.

    Args:
        seconds: does the work for so many, and returns the processor's seconds.
        few: a small size.
        many: a large one; with quadratic work it would take `many / few` times its share.
        slack: how many times its share it may take.
        least: seconds that `few` count for at least.
    """
    share = max(min(seconds(few) for _ in range(3)), least) * many / few
    return any(seconds(many) < share * slack for _ in range(4))
