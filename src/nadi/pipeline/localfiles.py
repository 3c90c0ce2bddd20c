"""Files of this machine as Spark writes them: no process for each, no `.crc` beside them.

Without Hadoop's native library its local file system starts `chmod` twice for every file that it makes: a small batch made four files and eight
processes. What sets the permissions without one is a class of some lines. Executors elsewhere have Hadoop's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nadi.pipeline.janino import compiled, replace_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "nadi.LocalFiles"
CHECKED = "org.apache.hadoop.fs.LocalFileSystem"
SETTINGS = {"spark.hadoop.fs.file.impl": CHECKED}
"""Without this the files of this machine are Hive's, which puts two more layers around the same."""

# The sticky bit is not among the permissions that Java knows.
SOURCE = """\
package nadi;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission wanted) throws IOException {
        if (wanted.getStickyBit()) {
            super.setPermission(path, wanted);
        } else {
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(wanted.toString()));
        }
    }
}
"""


def use_local_files(session: SparkSession) -> None:
    """Let all that this JVM writes through `file://` be written so, from now on."""
    jvm: Any = session._jvm
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    place = jvm.java.net.URI("file:///")
    checked = jvm.org.apache.hadoop.fs.FileSystem.get(place, configuration)  # there is one for all
    checked.setWriteChecksum(False)
    if checked.getClass().getName() != CHECKED:
        return  # somebody has said which one
    raw = compiled(jvm, CLASS, SOURCE).newInstance()
    raw.initialize(place, configuration)
    replace_field(checked.getClass().getSuperclass().getSuperclass(), checked, "fs", raw)
