"""Going on from a revision with other inputs: each is found by what it is, and no message is left unread without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_home import Home, rows

from nadi.errors import NadiError
from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config
from nadi.io.journal import open_journal
from nadi.io.natsclient import api, shared
from nadi.io.natsserver import NatsServer
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText
from nadi.pipeline.revision.atrest import let_go
from nadi.pipeline.revision.restore import Prepared
from nadi.pipeline.revision.update import update

SOURCE = "@source(type='file', dir.uri='{folder}/{name}', file.settle='0', @map(type='json')) define stream {name} (n int);\n"
COUNTED = (
    "@info(name='{name}') from {name}#window.length(1000) select '{name}' as k, count() as c, n insert into Out;\n"
)


def app(folder: Path, *names: str, source: str = SOURCE) -> str:
    """An app with a source per name, which counts what each one brings."""
    for name in names:
        (folder / name).mkdir(exist_ok=True)
    return (
        "@app:name('Counts')\n"
        + "".join(source.format(folder=folder, name=name) for name in names)
        + f"@sink(type='file', file.uri='{folder}/out.jsonl', @map(type='json')) define stream Out (k string, c long, n int);\n"
        + "".join(COUNTED.format(name=name) for name in names)
    )


def stateless(text: str, name: str) -> str:
    """The app with nothing to keep of one source."""
    return text.replace(
        f"{name}#window.length(1000) select '{name}' as k, count() as c", f"{name} select '{name}' as k, 0L as c"
    )


def put(folder: Path, name: str, *values: int) -> None:
    """A new file with events."""
    text = "".join(json.dumps({"event": {"n": n}}) + "\n" for n in values)
    (folder / name / f"{len(list((folder / name).iterdir())):03}.json").write_text(text)


def counted(folder: Path, name: str) -> list[tuple[int, int]]:
    return [(row["c"], row["n"]) for row in rows(folder / "out.jsonl") if row["k"] == name]


def fates(done: Prepared) -> dict[str, tuple[str, str]]:
    return {f.name.split()[3]: (f.fate, f.reason) for f in done.inputs.fates}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def test_inputs_go_on_at_their_own_positions_wherever_they_stand_in_the_text(home: Home) -> None:
    folder = home.folder
    before, after = app(folder, "A", "B"), app(folder, "C", "B", "A")
    put(folder, "A", 1, 2, 3)
    put(folder, "B", 10)
    home.run(before)
    home.revise(before)
    put(folder, "A", 4)
    put(folder, "B", 11)
    put(folder, "C", 100, 101)
    done = home.restore(after)
    assert fates(done) == {
        "A": ("goes on", "at position 3"),
        "B": ("goes on", "at position 1"),
        "C": ("begins", "with the first row of what is there"),
    }
    home.run(after)
    assert counted(folder, "A") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert counted(folder, "B") == [(1, 10), (2, 11)]
    assert counted(folder, "C") == [(1, 100), (2, 101)]
    put(folder, "C", 102)
    home.run(after)  # the numbers hold over starts
    assert counted(folder, "C")[-1] == (3, 102)


def test_an_input_that_was_read_to_its_end_may_go_and_comes_back_as_a_new_one(home: Home) -> None:
    folder = home.folder
    both, one = app(folder, "A", "B"), app(folder, "B")
    put(folder, "A", 1, 2)
    put(folder, "B", 10)
    home.run(both)
    home.revise(both)
    done = home.restore(one, reset=True)  # the count of A goes, too
    assert fates(done)["A"] == ("dropped", "all that it has was read")
    assert not done.inputs.losing
    put(folder, "B", 11)
    home.run(one)
    assert counted(folder, "B") == [(1, 10), (2, 11)]
    home.revise(one)
    again = home.restore(both)
    assert fates(again)["A"] == ("begins", "with the first row of what is there")
    assert set(again.inputs.numbers.values()) >= {1, 4}  # no number twice: 0 was A's once, 2 and 3 are nadi's own
    home.run(both)
    assert counted(folder, "A") == [(1, 1), (2, 2), (1, 1), (2, 2)]


def test_an_input_with_messages_that_were_not_read_is_dropped_with_reset_only(home: Home) -> None:
    folder = home.folder
    both, one = stateless(app(folder, "A", "B"), "A"), app(folder, "B")
    put(folder, "A", 1, 2)
    put(folder, "B", 10)
    home.run(both)
    home.revise(both)
    put(folder, "A", 3, 4, 5)
    with pytest.raises(NadiError) as caught:
        home.restore(one)
    assert caught.value.condition == "RESTORE_DROPS_INPUT"
    what = f"file source of A (dir.uri={folder}/A): 3 messages from position 2 on have not been read"
    assert caught.value.parameters["what"] == what
    put(folder, "B", 11)
    home.restore(one, reset=True)
    home.run(one)
    assert counted(folder, "B") == [(1, 10), (2, 11)]


def test_cuts_that_are_taken_again_without_an_input_leave_its_messages_out(home: Home) -> None:
    folder = home.folder
    both, one = app(folder, "A", "B"), app(folder, "B")
    put(folder, "A", 1)
    put(folder, "B", 10)
    home.run(both)
    first = home.revise(both)
    put(folder, "A", 2)
    put(folder, "B", 11)
    home.run(both)
    with pytest.raises(NadiError, match="RESTORE_DROPS_STATE"):
        home.restore(one, first)
    done = home.restore(one, first, reset=True)
    assert done.again == 1
    assert [f.reason for f in done.inputs.losing] == ["1 messages from position 1 on have not been read"]
    put(folder, "B", 12)
    home.run(one)
    assert counted(folder, "B") == [(1, 10), (2, 11), (3, 12)]


def test_a_start_without_a_restore_takes_another_order_and_no_other_inputs(home: Home) -> None:
    folder = home.folder
    text = app(folder, "A", "B")
    put(folder, "A", 1)
    put(folder, "B", 10)
    home.run(text)
    put(folder, "A", 2)
    turned = app(folder, "B", "A")
    spec = home.spec(turned)
    assert [c.stream for c in spec.sources(spec.load_engine().plan_app(turned))][:2] == ["A", "B"]
    (folder / "other").mkdir()
    with pytest.raises(NadiError) as caught:
        home.spec(text.replace(f"{folder}/A", f"{folder}/other"))
    assert caught.value.condition == "APP_CHANGED"
    assert f"gone: file source of A (dir.uri={folder}/A)" in str(caught.value)


def test_a_state_folder_that_knew_inputs_by_their_places_goes_on(home: Home) -> None:
    text = app(home.folder, "A", "B")
    home.spec(text)
    shape = home.options.state / "Counts" / "pipeline.json"
    old = {"version": 1, "sharding": "single", "sources": [["A", "file"], ["B", "file"]], "buckets": 1}
    shape.write_text(json.dumps(old))
    assert list(home.spec(text).inputs.values()) == [0, 1, 2, 3]
    with pytest.raises(NadiError, match="APP_CHANGED"):
        home.spec(app(home.folder, "B", "A"))


@pytest.mark.parametrize(("master", "tasks"), [("local[*,4]", 2), ("spark://host:7077", 4)])
def test_each_start_says_how_many_tasks_the_buckets_have_behind_a_restore_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, tasks: int
) -> None:
    home = Home(tmp_path, monkeypatch, buckets="4", hosts="1")
    counting = COUNTED.format(name="A")
    text = app(tmp_path, "A").replace(counting, f"partition with (n of A) begin {counting} end;")
    put(tmp_path, "A", 1, 2, 2)
    home.run(text)
    assert (home.spec(text).buckets, home.spec(text).partitions) == (4, 1)
    home.revise(text)
    home.restore(text)
    home.options = replace(home.options, master=master, conf={**home.options.conf, "nadi.hosts": "2"})
    assert (home.spec(text).buckets, home.spec(text).partitions) == (4, tasks)
    home.options = replace(home.options, master="local[*,4]", conf={**home.options.conf, "nadi.hosts": "3"})
    assert (home.spec(text).buckets, home.spec(text).partitions) == (4, 3)
    put(tmp_path, "A", 2)
    home.run(text)
    assert sorted(counted(tmp_path, "A")) == [(1, 1), (1, 2), (2, 2), (3, 2)]


def test_nadis_own_inputs_keep_their_numbers_when_a_source_is_added(home: Home) -> None:
    folder = home.folder
    before, after = (
        text.replace("@sink", "define table T (n int);\n@sink") for text in (app(folder, "A"), app(folder, "A", "B"))
    )
    put(folder, "A", 1)
    home.run(before)
    home.revise(before)
    numbers = home.restore(after).inputs.numbers
    assert [numbers[name] for name in sorted(numbers)] == [0, 3, 1, 2]  # A, B, on-demand queries, what sinks refused


# ---- logs that forget ------------------------------------------------------------------------------------------------

STREAMED = "@source(type='nats', destination='{name}', bootstrap.servers='{folder}', @map(type='json')) define stream {name} (n int);\n"


def changed(home: Home, text: str) -> None:
    """The state folder has another text from now on, as a node that starts with it makes it."""
    update(AppText(text), plan_app(text), home.options, "")


def test_a_text_that_changes_before_the_first_commit_behind_a_restore_keeps_what_was_restored(home: Home) -> None:
    one, two = app(home.folder, "A"), app(home.folder, "A", "B")
    put(home.folder, "A", 1, 2, 3)
    home.run(one)
    home.revise(one)
    home.restore(one)
    changed(home, two)
    put(home.folder, "A", 4)
    home.run(two)
    assert counted(home.folder, "A") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_state_that_was_let_go_of_does_not_come_back_with_another_text(home: Home) -> None:
    one, two = app(home.folder, "A"), app(home.folder, "A", "B")
    put(home.folder, "A", 1, 2, 3)
    home.run(one)
    let_go(AppText(one), plan_app(one), home.options, lambda _apps: "")
    changed(home, two)
    put(home.folder, "A", 4)
    home.run(two)
    assert counted(home.folder, "A") == [(1, 1), (2, 2), (3, 3), (1, 4)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as running:
        yield running


def streamed(server: NatsServer, folder: Path, *names: str) -> str:
    for name in names:
        shared(server.url).call(lambda nc, name=name: ensure_stream(nc, stream_config(name, [name])))
    return app(folder, *names, source=STREAMED.replace("{folder}", server.url))


def send(server: NatsServer, name: str, *values: int) -> None:
    messages = [Outgoing(name, json.dumps({"event": {"n": n}}).encode(), {}) for n in values]
    shared(server.url).call(lambda nc: publish_all(nc, messages))


def test_another_topic_begins_and_the_old_one_must_have_been_read(home: Home, server: NatsServer) -> None:
    folder = home.folder
    before = streamed(server, folder, "A")
    streamed(server, folder, "Z")
    after = before.replace("destination='A'", "destination='Z'")
    send(server, "A", 1, 2)
    send(server, "Z", 7)
    home.run(before)
    home.revise(before)
    done = home.restore(after)
    assert [(f.name.split("=")[1], f.fate, f.reason) for f in done.inputs.fates] == [
        ("Z)", "begins", "with the oldest message"),
        ("A)", "dropped", "all that it has was read"),
    ]
    home.run(after)
    assert counted(folder, "A") == [(1, 1), (2, 2), (3, 7)]
    home.revise(after)
    send(server, "Z", 8, 9)
    with pytest.raises(NadiError) as caught:
        home.restore(before)
    assert caught.value.condition == "RESTORE_DROPS_INPUT"
    assert "2 messages from position 2 on" in str(caught.value)


def test_messages_that_a_stream_no_longer_holds_are_counted_and_nothing_is_restored(
    home: Home, server: NatsServer
) -> None:
    folder = home.folder
    text = streamed(server, folder, "A", "B")
    send(server, "A", 1, 2)
    send(server, "B", 10)
    home.run(text)
    name = home.revise(text)
    send(server, "A", 3, 4, 5, 6)
    shared(server.url).call(lambda nc: api(nc, "STREAM.PURGE.A", {"seq": 6}))  # 3, 4 and 5 go
    for reset in (False, True):
        with pytest.raises(NadiError) as caught:
            home.restore(text, name, reset)
        assert caught.value.condition == "MESSAGES_GONE"
        assert caught.value.parameters["missing"] == "3"
        assert "nats source of A" in str(caught.value)
    assert not (home.options.state / "Counts" / "restored").exists()


def test_a_stream_that_ends_before_the_revision_is_another_one(home: Home, server: NatsServer) -> None:
    folder = home.folder
    text = streamed(server, folder, "A")
    send(server, "A", 1, 2, 3)
    home.run(text)
    home.revise(text)
    shared(server.url).call(lambda nc: api(nc, "STREAM.DELETE.A"))
    streamed(server, folder, "A")
    send(server, "A", 4)
    with pytest.raises(NadiError) as caught:
        home.restore(text)
    assert caught.value.condition == "RESTORE_DROPS_INPUT"
    assert "its log ends at 2, the revision stands at 4" in str(caught.value)
    home.restore(text, reset=True)
    home.run(text)
    assert counted(folder, "A") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_server_that_is_away_holds_up_no_input_that_goes_on_but_one_that_is_dropped(
    home: Home, server: NatsServer
) -> None:
    folder = home.folder
    both = streamed(server, folder, "A", "B")
    one = app(folder, "A", source=STREAMED.replace("{folder}", server.url))
    send(server, "A", 1)
    home.run(both)
    home.revise(both)
    server.stop()
    done = home.restore(both)
    assert all(f.fate == "goes on" and "cannot be asked now" in f.reason for f in done.inputs.fates)
    away = home.restore(one, reset=True)
    assert [f.reason.split(":")[0] for f in away.inputs.losing] == ["whether messages wait there cannot be told"]


POSTED = (
    "@source(type='http', receiver.url='http://127.0.0.1:1/{name}', @map(type='json')) define stream {name} (n int);\n"
)


def test_what_is_in_the_journal_stays_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer(tmp_path / "nats") as server:
        home = Home(tmp_path, monkeypatch, server.url)
        journal = open_journal(server.url, "Counts")

        def post(name: str, text: str, *values: int) -> None:
            spec = home.spec(text)
            (number,) = (c.ordinal for c in spec.sources(spec.load_engine().plan_app(text)) if c.stream == name)
            journal.append(number, [(1_000 + n, json.dumps({"event": {"n": n}}).encode(), {}) for n in values])

        before = app(tmp_path, "A", "B", source=POSTED)
        post("A", before, 1, 2)
        post("B", before, 10)
        home.run(before)
        home.revise(before)
        post("B", before, 11)  # waits in the journal
        after = app(tmp_path, "C", "B", "A", source=POSTED.replace(":1/", ":2/"))
        done = home.restore(after)
        assert fates(done) == {
            "A": ("goes on", "at position 2, 0 messages wait"),
            "B": ("goes on", "at position 1, 1 messages wait"),
            "C": ("begins", "with the first message that it takes"),
        }
        post("A", after, 3)
        post("C", after, 100)
        home.run(after)
        assert (counted(tmp_path, "A"), counted(tmp_path, "B")) == ([(1, 1), (2, 2), (3, 3)], [(1, 10), (2, 11)])
        assert counted(tmp_path, "C") == [(1, 100)]
