"""Hadoop's configuration without the defaults of YARN and MapReduce.

Each batch copies it, writes it down and keeps it as a broadcast: 1,102 entries, 220 kB in memory. Nothing of either system runs in the JVM of a local
master. What somebody has set stays, whatever it is of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nadi.pipeline.janino import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ELSEWHERE = ("yarn.", "mapreduce.")

_NARROWED = """\
package nadi;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;

public class Narrowed {
    public void without(Configuration all, String prefix) {
        Iterator names = new ArrayList(all.getPropsWithPrefix(prefix).keySet()).iterator();
        while (names.hasNext()) {
            String name = prefix + names.next();
            String[] sources = all.getPropertySources(name);
            if (sources != null && sources.length > 0 && sources[sources.length - 1].endsWith("-default.xml")) {
                all.unset(name);
            }
        }
    }
}
"""


def narrow(session: SparkSession) -> None:
    """Take the defaults of other systems out of the configuration, where the master is a local one."""
    if session.sparkContext.master.startswith("local"):
        jvm: Any = session._jvm
        narrowed = compiled(jvm, "nadi.Narrowed", _NARROWED).newInstance()
        for prefix in ELSEWHERE:
            narrowed.without(session.sparkContext._jsc.hadoopConfiguration(), prefix)
