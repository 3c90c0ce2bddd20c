"""The Spark session of a node, with the habits of Spark switched off that cost most of a small batch.

- Local checkpoint files: no `.crc` beside them, and no processes that set their permissions (`nadi.pipeline.localfiles`).
- The Python daemon is `nadi.pipeline.daemon` (no full garbage collection after every task).
- Unix sockets between the JVM and Python (TCP loopback waits 40 ms for delayed acknowledgements), where Spark is local in a folder of this user's own.
- Nobody speaks to the driver or an executor who does not know a secret (`nadi.pipeline.sparksecret`).

Spark's own log, and what its Python processes write, go to `<state>/logs/spark.log` and never to the screen.
"""

from __future__ import annotations

# Its hooks for forks must stand before PySpark forks to start Java: where another thread imports it meanwhile, Python 3.11 runs the second hook without the
# first and prints "release unlocked lock".
import concurrent.futures.thread  # noqa: F401
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import structlog

from nadi.config.ownership import make_folders
from nadi.errors import NadiError, error
from nadi.metrics.logs import OneHandler
from nadi.pipeline import catalyst, classarchive, hadoopconf, localfiles
from nadi.pipeline.connector.jar import ensure_jar
from nadi.pipeline.hosting.hostclient import own_folder
from nadi.pipeline.scratch import make_scratch, remove_scratch
from nadi.pipeline.sparksecret import FILE, authenticated, is_secret
from nadi.pipeline.stoprequest import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("nadi")
_CHECKPOINT = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

STARTS_AGAIN = (0.5, 2.0)  # seconds before each further attempt to start Spark

log = structlog.get_logger(__name__)

SETTINGS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.scheduler.mode": "FAIR",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "nadi.pipeline.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT,
    "spark.sql.streaming.metricsEnabled": "false",
    # A batch is a few fat rows in a plan that is made anew: writing code for it costs more than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A batch has half a dozen broadcasts of some kB, each of which gets a buffer of this size; packing costs more than copying.
    "spark.broadcast.blockSize": "256k",
    "spark.broadcast.compress": "false",
    "spark.sql.ui.explainMode": "simple",  # each plan is written down, for nobody
    # what is remembered of a thousand batches for pages that nobody opens
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "20",
    **localfiles.SETTINGS,
}
"""What holds unless `--conf` says otherwise."""

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.shuffle.compress": "false",
}
"""What holds besides on one machine, where Spark's files are in a folder of this user's own (`nadi.pipeline.scratch`). Its shuffles are read from memory, where
packing costs more than copying."""

CLUSTER = {"spark.locality.wait.process": "1s", "spark.shuffle.readHostLocalDisk": "false"}
"""What holds besides on several: a task waits for so long for the executor that has its kernels, as elsewhere it would be handed on; and executors of one
machine may be in containers, which have no disk in common."""

_JAVA_OPTIONS = "-Djdk.lang.Process.launchMechanism=VFORK"
# Spark's code runs a few times a batch, and is planned anew for each: what the second compiler and a collector with threads of its own
# cost on few cores they do not give back (docs/internals/performance.md has the figures).
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_PLAIN_COLLECTOR = "-XX:+UseSerialGC"
_FEW_CORES = 4
# A batch leaves 30 MB behind. With Java's own sizes there was a collection of 12 ms in nearly each, which kept too much, so that the whole heap had
# to be collected now and then; with these what a batch leaves dies young. Without the second compiler Java has little room for compiled code.
_HEAP = "-Xms512m -Xmn256m -XX:SurvivorRatio=4"
_LEAST_MEMORY = 1024  # MiB that the heap may have, for these to make sense
_CODE_ROOM = "-XX:ReservedCodeCacheSize=128m"

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.pools.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pools.level = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 4
"""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Where Spark runs, where its log goes (a folder), settings (`spark.…`) that go before ours, and the pools that queries will ask for."""

    master: str = "local[*,4]"
    logs: Path = Path(".nadi/logs")
    conf: Mapping[str, str] = field(default_factory=dict)
    name: str = "nadi"
    pools: tuple[str, ...] = ()


def is_cluster(master: str) -> bool:
    """Whether the executors of a master are processes of their own, which may be on other machines.

    >>> [is_cluster(master) for master in ("local[*,4]", "local-cluster[2,1,1024]", "spark://host:7077")]
    [False, True, True]
    """
    return not master.startswith("local") or master.startswith("local-cluster")


def mebibytes(size: str) -> int:
    """A size of memory as Spark reads it.

    >>> mebibytes("2g"), mebibytes("1536"), mebibytes("512MB")
    (2048, 1536, 512)
    """
    number = size.strip().lower().rstrip("b")
    unit = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}.get(number[-1:], 0)
    return int(float(number[:-1]) * unit) if unit else int(number)


def java_options(
    logs: Path, scratch: Path, extra: str = "", cores: int = 1, quicker: str = "", memory: str = "2g"
) -> str:
    """Options of the JVM, with `extra` ones of the user, which go before ours, and what else makes its start quicker; writes the configuration of its logging.
    `scratch` is its folder for temporary files.

    >>> from tempfile import mkdtemp
    >>> java_options(Path(mkdtemp()), Path("/tmp"), "-XX:+UseZGC", 2).split()[-2:]
    ['-XX:TieredStopAtLevel=1', '-XX:+UseZGC']
    """
    config = logs / "log4j2.properties"
    config.write_text(_LOG4J.format(path=logs / "spark.log"))
    heap = _HEAP if mebibytes(memory) >= _LEAST_MEMORY else ""
    collector = f"{_PLAIN_COLLECTOR} {heap}" if cores <= _FEW_CORES and "GC" not in extra else ""
    compiler = f"{_CODE_ROOM} {_QUICK_COMPILER}"
    temporary = shlex.quote(f"-Djava.io.tmpdir={scratch}")
    own = f"{_JAVA_OPTIONS} {temporary} -Dlog4j2.configurationFile={config.as_uri()} {compiler} {collector} {quicker}"
    return " ".join(f"{own} {extra}".split())


def write_pools(folder: Path, names: Iterable[str]) -> Path:
    """Write Spark's allocation file: the pools, with equal shares. The pool of an app that is added later gets the same ones, by Spark's defaults."""
    shares = "<schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>0</minShare>"  # of what is left out it warns, too
    pools = "".join(f"  <pool name={quoteattr(name)}>{shares}</pool>\n" for name in names)
    path = folder / "pools.xml"
    path.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n<allocations>\n{pools}</allocations>\n', encoding="utf-8")
    return path


def start_session(options: SessionOptions, stop: StopRequest) -> SparkSession:
    """Start Spark as `build_session` does; where the JVM dies on the way, which may be by somebody's hand, a few times. Errors: SPARK_NOT_STARTED."""
    for delay in (*STARTS_AGAIN, None):
        try:
            return build_session(options)
        except NadiError as failure:
            if delay is None or not _has_died(failure) or stop.wait(delay):
                raise
            end_driver(0.0)
            log.warning("what starts Spark has died: once more", reason=str(failure))
    raise AssertionError("the last attempt returns or raises")


def _has_died(failure: NadiError) -> bool:
    """Whether it is why Spark did not start that its JVM was gone: before it could be asked anything, or since."""
    from py4j.protocol import Py4JNetworkError

    if "JAVA_GATEWAY_EXITED" in str(failure):
        return java() is not None
    return isinstance(failure.__cause__, (Py4JNetworkError, ConnectionError))


class StrayRecords(logging.FileHandler):
    """Keeps in a file what libraries log without a logger of their own; what has one goes where it would go without this handler.

    Py4J tells of a JVM that was killed by `logging.exception`, which prints a stack trace where the root logger has no handler.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "root":
            super().emit(record)
        elif (
            len(logging.getLogger().handlers) == 1
            and logging.lastResort is not None
            and record.levelno >= logging.lastResort.level
        ):
            logging.lastResort.handle(record)


def keep_strays(logs: Path) -> None:
    """Let `<logs>/node.log` have stray records, unless somebody has said where they go."""
    root = logging.getLogger()
    if all(isinstance(handler, OneHandler) for handler in root.handlers):
        made = StrayRecords(logs / "node.log", delay=True)
        made.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        root.addHandler(made)


_INSTALLED = """\
#!/bin/sh
# Spark lets its Python processes import pyspark from an archive in which nothing is compiled: half a second for each of a dozen processes that start
# one after the other. The same pyspark is installed, and compiled.
set -f
IFS=:
kept=
for part in $PYTHONPATH; do
    case $part in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
        *) kept=$kept:$part ;;
    esac
done
PYTHONPATH=${{kept#:}} exec {python} "$@"
"""


def python_of(options: SessionOptions) -> str:
    """What Spark runs as Python: this interpreter, by a script in the folder of the logs that has pyspark imported from where it is installed.

    On other machines, and with a Spark that is not the one that came with pyspark, it is the interpreter itself.
    """
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    home = Path(pyspark.__file__).parent
    if is_cluster(options.master) or Path(_find_spark_home()).resolve() != home.resolve():
        return sys.executable
    script = options.logs.resolve() / "python"
    script.write_text(_INSTALLED.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    return str(script)


def java() -> str | None:
    """The `java` that Spark's scripts will run; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None)


def jars(program: str | None, others: str) -> str:
    """`spark.jars` with the connector besides those of the user; driver and executors load it. Without a Java nothing can be built, or started.

    >>> jars(None, "mine.jar")
    'mine.jar'
    """
    own = ensure_jar(program).as_uri() if program is not None else ""
    return ",".join(filter(None, (others, own)))


def build_session(options: SessionOptions) -> SparkSession:
    """Start Spark. One session per process. Errors: SPARK_NOT_STARTED, CONNECTOR_NOT_BUILT, CLUSTER_WITHOUT_SECRET, INVALID_SETTING."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    logs = options.logs.resolve()
    make_folders(logs)
    keep_strays(logs)
    os.environ["PYSPARK_PYTHON"] = python_of(options)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["NADI_LOG_DIR"] = str(logs)
    pools, scratch = write_pools(logs, options.pools).as_uri(), make_scratch()
    settings = {
        **SETTINGS,
        **(CLUSTER if is_cluster(options.master) else LOCAL | _own_folders(scratch)),
        "spark.scheduler.allocation.file": pools,
        "spark.master": options.master,
        "spark.app.name": options.name,
        **options.conf,
        **authenticated(options.master, options.conf),
    }
    settings.pop(FILE, None)
    settings["spark.jars"] = jars(java(), settings.get("spark.jars", ""))
    extra = settings.get("spark.driver.extraJavaOptions", "")
    quicker = classarchive.use(java(), extra)
    settings["spark.driver.extraJavaOptions"] = java_options(
        logs, scratch, extra, os.cpu_count() or 1, quicker, settings["spark.driver.memory"]
    )
    # this becomes a command line; the context hears of all
    conf = SparkConf(loadDefaults=False).setAll([(k, v) for k, v in settings.items() if not is_secret(k)])
    try:
        # what the JVM and the Python processes under it print belongs into the log, too
        # A session of its own: signals to our process group (Ctrl-C, `timeout`) are ours to handle. The JVM ends when its standard input closes.
        with (logs / "spark-output.log").open("ab") as output:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output, "start_new_session": True})
        with _keeping_interrupts():
            context = SparkContext(gateway=gateway, conf=SparkConf().setAll(list(settings.items())))
        context._accumulatorServer.handle_error = _noted  # it would print a stack trace when the JVM dies
        session = SparkSession(context)
        quicken(session)
        driver_jvm(session)
    except (PySparkException, Py4JError, OSError) as reason:
        raise error("SPARK_NOT_STARTED", reason=told_by(str(reason)), log=logs) from reason
    return session


def _own_folders(scratch: Path) -> dict[str, str]:
    return {"spark.python.unix.domain.socket.dir": str(own_folder()), "spark.local.dir": str(scratch)}


def told_by(failure: str) -> str:
    """What a failure says, in one line: of one in Java, what Java says.

    >>> told_by("An error occurred while calling None.a.B.\\n: java.lang.IllegalStateException: it was stopped.\\nmore")
    'java.lang.IllegalStateException: it was stopped.'
    """
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    return next((line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while")), failure)


def quicken(
    session: SparkSession,
    changes: Iterable[Callable[[SparkSession], None]] = (
        localfiles.use_local_files,
        hadoopconf.narrow,
        catalyst.lighten,
    ),
) -> None:
    """Change in the JVM what no setting changes, once. A Spark that is not the one that was looked into goes on as it is. Errors: Py4JNetworkError."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    for change in changes:
        try:
            change(session)
        except Py4JNetworkError:
            raise
        except Py4JError as reason:
            told = " ".join(str(reason).splitlines()[:2])
            _LOG.warning("small batches will be slower (%s): %s", change.__name__, told)


def _noted(request: object, client: object) -> None:
    """For a connection that broke: whoever waits for the JVM tells of its end by name."""
    _LOG.debug("a connection of Spark's accumulators broke: %s %s", request, client)


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Leave SIGINT as it is: Spark's own handler cancels all jobs, where ours finishes the batch."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def driver_lost(within: float = 0.0) -> bool:
    """Whether the driver's JVM that this process started is gone, or goes within so many seconds."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return SparkContext._gateway is None
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def end_driver(within: float) -> None:
    """Stop Spark and its JVM, also one that is dead already, and let go of it, so that another one can be started in this process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    process = getattr(gateway, "proc", None)
    if context is not None:
        if process is not None and process.poll() is not None:
            context._jsc = None  # nothing is left to be told to stop
        context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is not None:
        gateway.shutdown()
    if process is not None:
        process.stdin.close()  # the JVM ends with it
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None
    remove_scratch()


def driver_machine(session: SparkSession) -> str:
    """How executors reach the driver's machine."""
    return str(session.sparkContext.getConf().get("spark.driver.host"))


def driver_jvm(session: SparkSession) -> int:
    """The process id of the driver's JVM, which is asked once: `build_session` has seen that it answers."""
    return _process_of(session._jvm)


@lru_cache(maxsize=1)
def _process_of(jvm: Any) -> int:
    return int(jvm.java.lang.ProcessHandle.current().pid())


def own_session(session: SparkSession, pool: str) -> SparkSession:
    """A session of its own for one query of several, active in this thread, with a FAIR pool of its own.

    Python data sources are registered and looked up through the active session.
    """
    made = session.newSession()
    activate(made)
    session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
    return made


def activate(session: SparkSession) -> None:
    """Make a session the active one of the calling thread."""
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
