"""The settings of a node."""

from __future__ import annotations

from dataclasses import fields

import pytest

from nadi.config import Settings, read_settings, settings_table
from nadi.errors import NadiError


def refused(**pairs: str) -> NadiError:
    with pytest.raises(NadiError) as caught:
        read_settings({name.replace("_", "."): value for name, value in pairs.items()})
    assert caught.value.condition == "INVALID_SETTING"
    return caught.value


def test_settings_are_read_by_name_and_type_and_all_others_keep_their_defaults():
    pairs = {"nadi.batch.events": " 500 ", "nadi.hosts": "3", "nadi.journal.url": "nats://here:4222", "spark.ui": "x"}
    assert read_settings(pairs) == Settings(batch_events=500, hosts=3, journal_url="nats://here:4222")
    assert read_settings({}) == Settings()


def test_an_empty_value_means_the_default_and_zero_means_zero():
    assert read_settings({"nadi.batch.bytes": "", "nadi.buckets": " "}) == Settings()
    assert read_settings({"nadi.batch.bytes": "0"}).batch_bytes == 0


def test_every_name_may_be_a_property_of_the_node():
    pairs = {"nadi.properties.region": "eu", "nadi.properties.a.b": "", "nadi.hosts": "1"}
    assert read_settings(pairs) == Settings(hosts=1, properties={"region": "eu", "a.b": ""})


def test_an_unknown_setting_is_refused_with_the_nearest_one_that_exists():
    assert "wanted is 'nadi.batch.events', or another of nadi.batch.bytes" in str(refused(nadi_batch_event="5"))
    assert "wanted is one of nadi.batch.events, nadi.batch.bytes" in str(refused(nadi_zzzzzzzzzzzz="5"))


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "1e3", "true"])
def test_a_number_that_is_none_is_refused_with_what_is_wanted(value):
    assert f"'nadi.order.idle' is '{value}', wanted is a whole number, 0 or more" in str(refused(nadi_order_idle=value))


def test_the_table_describes_every_setting_once():
    table = settings_table()
    assert [s.name for s in table] == [
        "nadi.properties.…" if f.name == "properties" else "nadi." + f.name.replace("_", ".") for f in fields(Settings)
    ]
    assert all(s.doc and s.type in ("whole number", "text") for s in table)
    assert all(s.unit for s in table if s.type == "whole number")
    by_name = {s.name: s for s in table}
    assert (by_name["nadi.order.idle"].default, by_name["nadi.order.idle"].unit) == ("5000", "ms")
    assert by_name["nadi.buckets"].default == "as many as cores"
    assert (by_name["nadi.journal.url"].default, by_name["nadi.journal.url"].type) == ("", "text")
