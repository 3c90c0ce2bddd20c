"""What a node of a pair reads in its file, and what it does not start with."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.config.deployment import Deployment, deployment_of
from nadi.errors import NadiError
from nadi.server.pair.place import digest_of, notices, place_of, revisions_of

SOURCE = {
    "name": "D",
    "definition": {"configuration": {"jdbcUrl": "jdbc:postgresql://db/c", "username": "u", "password": "hidden"}},
}
WHOLE: dict[str, Any] = {
    "wso2.carbon": {"id": "n1"},
    "wso2.datasources": {"dataSources": [SOURCE]},
    "cluster.config": {
        "enabled": True,
        "groupId": "g",
        "strategyConfig": {"datasource": "D", "heartbeatInterval": 500, "heartbeatMaxRetry": 3},
    },
    "deployment.config": {"type": "ha", "eventSyncServer": {"advertisedHost": "10.0.0.5"}},
}


def read(**changes: Any) -> Deployment:
    return deployment_of(WHOLE | {name.replace("__", "."): value for name, value in changes.items()})


def test_a_whole_file_says_whom_the_node_forms_a_pair_with_and_where_it_is():
    found = place_of(read())
    assert (found.id, found.settings.group, found.settings.lease) == ("n1", "g", 1_500)
    assert (found.listens, found.reached) == (("0.0.0.0", 9893), ("10.0.0.5", 9893))
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"cluster__config": {"groupId": "g"}}, r"cluster\.config\.enabled"),
        ({"cluster__config": {"enabled": True}}, r"cluster\.config\.strategyConfig\.datasource"),
        ({"deployment__config": {"type": "ha"}}, r"eventSyncServer\.advertisedHost"),
        ({"nadi": {"cuts": {"url": "sqlite:///x"}}}, r"nadi\.cuts\.url"),
        ({"nadi": {"journal": {"url": "nats://h"}}}, r"nadi\.journal\.url"),
    ],
)
def test_what_is_missing_or_cannot_be_is_named(changes: dict[str, Any], name: str):
    with pytest.raises(NadiError, match=rf"INVALID_SETTING.*{name}"):
        place_of(read(**changes))


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://10.0.0.5:9090"),
        (
            {
                "wso2__transport__http": {
                    "listenerConfigurations": [{"host": "0.0.0.0", "port": 9443, "scheme": "https"}]
                }
            },
            "https://10.0.0.5:9443",
        ),
        ({"wso2__transport__http": {"listenerConfigurations": [{"host": "10.1.1.1", "port": 9}]}}, "http://10.1.1.1:9"),
        ({"wso2__transport__http": {"listenerConfigurations": []}}, ""),
    ],
)
def test_the_partner_reaches_the_rest_api_where_a_listener_is(changes: dict[str, Any], url: str):
    assert place_of(read(**changes)).rest == url


def test_revisions_that_only_this_node_would_have_go_where_the_partner_gets_a_copy():
    copied = "file:///home/pair/state/~revisions?replica=/home/pair/sync/s"
    kept = {"enabled": True, "persistenceStore": "FileSystemPersistenceStore"}
    found = revisions_of(read(state__persistence=kept | {"intervalInMin": 7}), copied)
    assert (found.location, found.interval) == (copied, 7)
    assert notices(read(state__persistence=kept)) == []
    mounted = kept | {"config": {"location": "/mnt/revisions"}}
    assert revisions_of(read(state__persistence=mounted), copied).location == "/mnt/revisions"
    away = kept | {"config": {"location": "s3://bucket/revisions"}}
    assert revisions_of(read(state__persistence=away), copied).location == "s3://bucket/revisions"
    assert notices(read(state__persistence=away)) == []
    assert "the other node has to have the same folder there" in notices(read(state__persistence=mounted))[0]
    assert not revisions_of(read(), copied).enabled


def test_a_database_that_is_a_file_is_told():
    source = {"name": "D", "definition": {"configuration": {"jdbcUrl": "jdbc:sqlite:/x/c.db"}}}
    (told,) = notices(read(wso2__datasources={"dataSources": [source]}))
    assert "both nodes have to be on this machine" in told
    assert notices(read()) == []


def test_settings_by_which_results_could_differ_are_in_the_digest_and_others_are_not():
    same = digest_of(read())
    assert digest_of(read(wso2__carbon={"id": "n2"}, spark={"master": "local[1]"})) == same
    assert digest_of(read(nadi={"kernel": "rows"})) != same
    assert digest_of(read(nadi={"variables": {"X": "1"}})) != same
