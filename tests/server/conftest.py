"""What the tests of the worker find: helpers that lie in folders beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from argon2 import PasswordHasher

from nadi.server.security import passwords

sys.path.append(str(Path(__file__).parent / "security"))

# A check of a password takes 64 MB and a core for a tenth of a second, on purpose; one of these tests takes less. Those that start a worker take it whole.
passwords._HASHER = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1)
passwords.NOBODY = passwords._of_nobody()
