"""What Catalyst, Spark's planner, does in each batch for nobody, and has no setting for. Only speed depends on it.

- It counts the time and the runs of each of its hundreds of rules, and adds the counts up before and after each of some forty plans and encoders of a
  batch: 7 % of the JVM's work. The counts are kept no more.
- Spark's threads that serve the state to Python know no session, so our settings did not hold there: for each task they wrote a dozen classes of Java
  anew, to find that they were compiled already. Threads without a session have the settings of the node's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nadi.pipeline.janino import compiled, field_of, replace_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = ("timeMap", "numRunsMap", "numEffectiveRunsMap", "timeEffectiveRunsMap")

_FORGETFUL = """\
package nadi;

import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;

public class Forgetful extends ConcurrentHashMap {
    public Object compute(Object key, BiFunction change) {
        return change.apply(key, null);
    }
}
"""

_SETTINGS = """\
package nadi;

public class Settings extends ThreadLocal {
    private Object conf;

    protected Object initialValue() {
        return conf;
    }
}
"""


def lighten(session: SparkSession) -> None:
    """Switch both off in the JVM of a session. Errors: Py4JError where this is another Spark than the one that was looked into."""
    jvm: Any = session._jvm
    _without_counts(jvm)
    _settings_everywhere(jvm, session._jsparkSession.sessionState().conf())


def _without_counts(jvm: Any) -> None:
    meter = jvm.org.apache.spark.sql.catalyst.rules.QueryExecutionMetering.INSTANCE()
    forgetful = compiled(jvm, "nadi.Forgetful", _FORGETFUL)
    for name in COUNTS:
        counts = field_of(meter.getClass(), meter, name)
        replace_field(counts.getClass(), counts, "map", forgetful.newInstance())


def _settings_everywhere(jvm: Any, conf: Any) -> None:
    jvm.org.apache.spark.sql.internal.SQLConf.getFallbackConf()  # makes what is replaced now
    kind = compiled(jvm, "nadi.Settings", _SETTINGS)
    settings = kind.newInstance()
    replace_field(kind, settings, "conf", conf)
    owner = kind.getClassLoader().loadClass("org.apache.spark.sql.internal.SQLConf$")
    replace_field(owner, None, "fallbackConf", settings)
