"""Key-groups must never change: they decide where state is."""

import pytest

from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.keys import java_text, key_group, murmur3
from nadi.lang.tree import Type


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"abc", 0, 0xB3DD93FA),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        ("ππππππππ".encode(), 0x9747B28C, 0xD58063C1),
    ],
)
def test_murmur3_gives_the_published_vectors(data: bytes, seed: int, expected: int) -> None:
    assert murmur3(data, seed) == expected


def test_a_key_group_is_the_hash_of_the_text_modulo_their_number() -> None:
    assert key_group("abc") == 0xB3DD93FA % KEY_GROUPS
    assert {key_group(str(i)) for i in range(5000)} == set(range(KEY_GROUPS))


def test_a_lone_surrogate_in_a_key_has_a_group_too() -> None:
    assert 0 <= key_group("\ud800") < KEY_GROUPS


def test_keys_are_printed_as_java_prints_them() -> None:
    assert java_text(True, Type.BOOL) == "true"
    assert java_text(1e10, Type.DOUBLE) == "1.0E10"
    assert java_text(55.599998474121094, Type.FLOAT) == "55.6"
    assert java_text(7, Type.LONG) == "7"
