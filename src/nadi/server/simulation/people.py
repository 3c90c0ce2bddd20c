"""What PROPERTY_BASED attributes may be: names, places, numbers of cards, times of the day."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faker import Generator

Make = Callable[[], Any]

_BY_FAKER = {
    "FULL_NAME": "name",
    "FIRST_NAME": "first_name",
    "LAST_NAME": "last_name",
    "EMAIL": "email",
    "PHONE_NUM": "phone_number",
    "POST_CODE": "postcode",
    "STATE": "state",
    "CITY": "city",
    "COMPANY": "company",
    "COUNTRY": "country",
    "STREET_NAME": "street_name",
    "HOUSE_NO": "building_number",
    "OCCUPATION": "job",
    "IBAN": "iban",
    "BIC": "swift",
    "URL": "url",
    "IP": "ipv4",
    "IP_V6": "ipv6",
    "MAC_ADDRESS": "mac_address",
    "UUID": "uuid4",
    "USERNAME": "user_name",
    "COLOUR": "color_name",
    "SENTENCE": "sentence",
    "PARAGRAPH": "paragraph",
}
_BY_TIME = {
    "TIME_12H": "%I:%M:%S %p",
    "TIME_24H": "%H:%M:%S",
    "SECOND": "%S",
    "MINUTE": "%M",
    "MONTH": "%B",
    "MONTH_NUM": "%m",
    "YEAR": "%Y",
    "DAY": "%d",
    "DAY_OF_WEEK": "%A",
    "DATE": "%Y-%m-%d",
}
_TIMES = (0, 1_893_455_999)
"""Seconds between which times lie, the years 1970 to 2029: not those up to now, so that a seed gives the same ones tomorrow."""
_GEO_HASH = "0123456789bcdefghjkmnpqrstuvwxyz"


def _words(chance: random.Random, faker: Any) -> str:
    return " ".join(faker.words(chance.randint(2, 6)))


def _bsn(chance: random.Random, _faker: Generator) -> str:
    """A Dutch citizen's number: the weighted sum of its nine digits is a multiple of eleven."""
    while True:
        digits = [chance.randint(0, 9) for _ in range(8)]
        last = sum(weight * digit for weight, digit in zip(range(9, 1, -1), digits)) % 11
        if last < 10 and any(digits):
            return "".join(map(str, [*digits, last]))


def _degrees(chance: random.Random, most: int) -> float:
    return round(chance.uniform(-most, most), 6)


_MADE: dict[str, Callable[[random.Random, Any], Any]] = {
    "WORDS": _words,
    "BSN": _bsn,
    "ADDRESS": lambda _chance, faker: faker.address().replace("\n", ", "),
    "VISA_CARD": lambda _chance, faker: faker.credit_card_number("visa"),
    "PIN_CODE": lambda chance, _faker: f"{chance.randint(0, 9_999):04d}",
    "HEIGHT_CM": lambda chance, _faker: chance.randint(140, 210),
    "HEIGHT_M": lambda chance, _faker: round(chance.uniform(1.4, 2.1), 2),
    "WEIGHT": lambda chance, _faker: chance.randint(40, 140),
    "ALTITUDE": lambda chance, _faker: chance.randint(0, 8_848),
    "DEPTH": lambda chance, _faker: chance.randint(-10_994, 0),
    "LATITUDE": lambda chance, _faker: _degrees(chance, 90),
    "LONGITUDE": lambda chance, _faker: _degrees(chance, 180),
    "COORDINATES": lambda chance, _faker: f"{_degrees(chance, 90)},{_degrees(chance, 180)}",
    "GEO_HASH": lambda chance, _faker: "".join(chance.choices(_GEO_HASH, k=10)),
}

PROPERTIES = (*_BY_TIME, *_BY_FAKER, *_MADE)
"""The names of all properties."""


def made_property(name: str, chance: random.Random) -> Make:
    """What makes values of a property. Whole numbers have no zeros in front."""
    if name in _BY_TIME:
        return lambda: _time(_BY_TIME[name], chance)
    faker = _faker(chance)
    if name in _MADE:
        return lambda: _MADE[name](chance, faker)
    found: Make = getattr(faker, _BY_FAKER[name])
    return found


def _time(form: str, chance: random.Random) -> str:
    found = datetime.fromtimestamp(chance.randint(*_TIMES), UTC).strftime(form)
    return str(int(found)) if found.isdecimal() else found


def _faker(chance: random.Random) -> Generator:
    from faker import Factory  # with it come 20 MB of names

    made: Generator = Factory.create("en_US")
    made.random = chance
    return made
