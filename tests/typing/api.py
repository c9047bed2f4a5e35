"""What type checkers must see of the public face. Checked by mypy, never run."""

from typing import assert_type

import holdfast

assert_type(holdfast.__version__, str)
