"""Hashes of passwords."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import VerifyMismatchError

from nadi.server.security.passwords import NOBODY, PasswordCheck, hash_password


def test_a_user_that_is_not_there_is_checked_as_long_as_one_that_is():
    assert extract_parameters(NOBODY) == extract_parameters(hash_password("right"))
    with pytest.raises(VerifyMismatchError):  # it is a hash, and was compared
        PasswordHasher().verify(NOBODY, "right")


def test_a_user_that_is_not_there_has_no_password():
    assert not PasswordCheck().is_right("", None)
