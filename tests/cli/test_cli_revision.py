"""`nadi revision` and `nadi restore --dry-run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app

APP = "@app:name('Sums') define stream S (k string, v int);\n@info(name='s') from S#window.length(3) select sum(v) as s group by k insert into O;\n"


def made(state: Path, text: str = APP, revisions: int = 1) -> list[str]:
    app = plan_app(text, default_registry())
    kernel = RowsKernel(app, default_registry())
    kernel.start(0)
    store = FileStore(state / "siddhi-app-persistence")
    names = []
    for n in range(revisions):
        kernel.deliver("S", [Event(CURRENT, n, (f"k{n}", n))])
        meta = meta_of(app, {"n": n + 1, "epoch": 1, "clock": 1_700_000_000_000 + n, "started": 0}, "4.3.0")
        names.append(write_revision(store, meta, [kernel.dump()], 1_700_000_000_000 + n))
    return names


def nadi(*args: object, status: int = 0) -> str:
    done = CliRunner().invoke(cli, [str(a) for a in args], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.output
    return done.output


def test_revisions_are_listed_newest_first(tmp_path):
    names = made(tmp_path, revisions=3)
    text = nadi("revision", "list", "Sums", "--state-dir", tmp_path)
    assert [line.split()[1] for line in text.splitlines() if "__Sums" in line] == names[::-1]
    rows = json.loads(nadi("revision", "list", "Sums", "--json", "--state-dir", tmp_path))
    assert [(r["revision"], r["cut"], r["buckets"], r["problem"]) for r in rows] == [
        (names[n], n + 1, 1, "") for n in (2, 1, 0)
    ]
    assert rows[0]["time"] == "2023-11-14 22:13:20"


def test_a_revision_shows_its_elements_with_keys_and_sizes(tmp_path):
    (name,) = made(tmp_path)
    text = nadi("revision", "show", "Sums", "--state-dir", tmp_path)
    assert "Spark" not in text
    assert "spark 4.3.0" in text
    assert [line.split()[1:4:2] for line in text.splitlines() if "s/window" in line] == [["s/window", "1"]]
    shown = json.loads(nadi("revision", "show", "Sums", name, "--json", "--state-dir", tmp_path))
    assert (shown["cut"], shown["problem"]) == ({"n": 1, "epoch": 1, "clock": 1_700_000_000_000, "started": 0}, "")
    assert set(shown["elements"]) == {"app/clock", "s/window", "s/selector"}
    assert shown["elements"]["s/window"]["bytes"] > 0


def test_a_damaged_revision_is_shown_as_such(tmp_path):
    made(tmp_path)
    for path in tmp_path.glob("*/Sums/segments/*.zst"):
        path.write_bytes(path.read_bytes()[:-3])
    assert "is damaged" in nadi("revision", "show", "Sums", "--state-dir", tmp_path, status=1)


def test_a_deleted_revision_is_gone(tmp_path):
    names = made(tmp_path, revisions=2)
    nadi("revision", "delete", "Sums", names[0], "--state-dir", tmp_path)
    assert FileStore(tmp_path / "siddhi-app-persistence").names("Sums") == names[1:]
    with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
        nadi("revision", "delete", "Sums", names[0], "--state-dir", tmp_path)


def test_an_app_that_has_none_is_answered_with_the_nearest_name(tmp_path):
    made(tmp_path)
    with pytest.raises(NadiError, match=r"REVISION_NOT_FOUND.*Sums"):
        nadi("revision", "list", "Sumz", "--state-dir", tmp_path)


def test_the_store_is_the_one_of_the_deployment_yaml(tmp_path):
    config = tmp_path / "deployment.yaml"
    config.write_text(
        "state.persistence:\n  enabled: true\n"
        "  persistenceStore: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore\n"
        "  config: {datasource: PERSISTENCE_DB, table: REVISIONS}\n"
        "wso2.datasources:\n  dataSources:\n    - name: PERSISTENCE_DB\n      definition:\n        type: RDBMS\n"
        f"        configuration: {{jdbcUrl: 'jdbc:sqlite:{tmp_path}/revisions.db'}}\n",
        encoding="utf-8",
    )
    with pytest.raises(NadiError, match=r"REVISION_NOT_FOUND.*revisions\.db, table REVISIONS"):
        nadi("revision", "list", "Sums", "--config", config)
    assert (tmp_path / "revisions.db").exists()


def test_a_dry_run_tells_what_becomes_of_each_element(tmp_path):
    made(tmp_path)
    path = tmp_path / "sums.siddhi"
    path.write_text(APP.replace("length(3)", "length(5)"), encoding="utf-8")
    text = nadi("restore", path, "--dry-run", "--state-dir", tmp_path)
    assert [line.split("│")[1:5:2] for line in text.splitlines() if "│ s/" in line] == [
        [" s/window   ", " migrated "],
        [" s/selector ", " kept     "],
    ]


def test_a_dry_run_fails_where_state_would_be_lost_without_reset(tmp_path):
    made(tmp_path)
    path = tmp_path / "sums.siddhi"
    path.write_text(APP.replace("length(3)", "length(2)"), encoding="utf-8")
    text = nadi("restore", path, "--dry-run", "--state-dir", tmp_path, status=1)
    assert "2 elements would lose their state: it takes --reset" in text
    nadi("restore", path, "--dry-run", "--reset", "--state-dir", tmp_path)
    rows = json.loads(nadi("restore", path, "--dry-run", "--json", "--state-dir", tmp_path, status=1))["elements"]
    assert {r["element"]: r["fate"] for r in rows} == {"s/window": "reset", "s/selector": "reset"}


def test_a_restore_needs_a_revision(tmp_path):
    path = tmp_path / "sums.siddhi"
    path.write_text(APP, encoding="utf-8")
    with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
        nadi("restore", path, "--state-dir", tmp_path)


def inputs(tmp_path: Path, *names: str) -> Path:
    """The file of an app with an input per name."""
    sources = "".join(
        f"@source(type='file', dir.uri='{tmp_path}/{name}', @map(type='json')) define stream {name} (v int);\n"
        for name in names
    )
    path = tmp_path / "sums.siddhi"
    path.write_text(f"@app:name('Sums') {sources}from {names[0]} select v insert into O;", encoding="utf-8")
    for name in names:
        (tmp_path / name).mkdir(exist_ok=True)
    return path


def with_inputs(tmp_path: Path, *names: str) -> None:
    """A revision of the app after a cut at position 2 of each of its inputs."""
    app = plan_app(inputs(tmp_path, *names).read_text(), default_registry())
    cut = {"n": 1, "epoch": 1, "clock": 5, "started": 0, "ends": {str(i): {"0": 2} for i in range(len(names))}}
    write_revision(FileStore(tmp_path / "siddhi-app-persistence"), meta_of(app, cut), [[]], 1_700_000_000_000)


def test_a_dry_run_tells_what_becomes_of_each_input_and_changes_nothing(tmp_path):
    with_inputs(tmp_path, "A", "B")
    path = inputs(tmp_path, "C", "B")
    before = sorted(tmp_path.rglob("*"))
    text = nadi("restore", path, "--dry-run", "--state-dir", tmp_path)
    assert [[cell.strip() for cell in line.split("│")[1:4]] for line in text.splitlines() if "source of" in line] == [
        [f"file source of B (dir.uri={tmp_path}/B)", "goes on", "at position 2"],
        [f"file source of C (dir.uri={tmp_path}/C)", "begins", "with the first row of what is there"],
        [f"file source of A (dir.uri={tmp_path}/A)", "dropped", "all that it has was read"],
    ]
    rows = json.loads(nadi("restore", path, "--dry-run", "--json", "--state-dir", tmp_path))["inputs"]
    assert [row["fate"] for row in rows] == ["goes on", "begins", "dropped"]
    assert set(tmp_path.rglob("*")) - set(before) <= {tmp_path / "node.lock"}


def test_a_dry_run_fails_where_messages_would_stay_unread_without_reset(tmp_path):
    with_inputs(tmp_path, "A", "B")
    manifest = tmp_path / "Sums" / "sources" / "0"
    source = plan_app(inputs(tmp_path, "A", "B").read_text(), default_registry())
    spec = AppSpec("Sums", source.text, str(tmp_path / "Sums"), until_end=True)
    (tmp_path / "A" / "1.json").write_text('{"event": {"v": 1}}\n' * 5)
    assert spec.open_log(spec.sources(source)[0]).end(0) == 5
    assert manifest.is_dir()
    path = inputs(tmp_path, "B")
    text = nadi("restore", path, "--dry-run", "--state-dir", tmp_path, status=1)
    assert "3 messages from position 2 on have not been read" in text
    assert "1 inputs would leave messages unread: it takes --reset" in text
    nadi("restore", path, "--dry-run", "--reset", "--state-dir", tmp_path)
    with pytest.raises(NadiError, match="RESTORE_DROPS_INPUT"):
        nadi("restore", path, "--state-dir", tmp_path)
    assert "goes on after cut 1" in nadi("restore", path, "--reset", "--state-dir", tmp_path)


POSTED = """@app:name('Sums') @source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream S (v int); from S select v insert into O;"""


def test_an_app_whose_journal_stayed_on_another_machine_begins_a_new_one_with_reset(tmp_path):
    app = plan_app(POSTED, default_registry())
    cut = {"n": 1, "epoch": 1, "clock": 5, "started": 0, "ends": {"0": {"0": 17}}}
    write_revision(FileStore(tmp_path / "siddhi-app-persistence"), meta_of(app, cut), [[]], 1_700_000_000_000)
    path = tmp_path / "sums.siddhi"
    path.write_text(POSTED, encoding="utf-8")
    with pytest.raises(NadiError, match=r"RESTORE_DROPS_INPUT.*its log ends at 0, the revision stands at 17"):
        nadi("restore", path, "--state-dir", tmp_path)
    nadi("restore", path, "--reset", "--state-dir", tmp_path)
    shape = json.loads((tmp_path / "Sums" / "pipeline.json").read_text())
    assert shape["inputs"]["http source of S"] == 3
