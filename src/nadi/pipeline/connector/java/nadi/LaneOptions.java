package nadi;

import java.io.Serializable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of a source or a sink. Those of hosts name places on the machine where a task runs. */
final class LaneOptions implements Serializable {
    /** {@code coordinator}: the path of the coordinator's socket. */
    final String coordinator;
    /** {@code query}: the name that the coordinator knows the query by. */
    final String query;
    /** {@code hosts.base}: the hosts of a JVM are in the folder in it that has the JVM's process id as its name. */
    final String base;
    /** {@code hosts.command}: what starts a host, an argument per line; folder, index and process id of the JVM are appended. */
    final String command;
    /** {@code logs}: the folder for what hosts print; empty for the folder of the hosts. */
    final String logs;

    LaneOptions(CaseInsensitiveStringMap options) {
        coordinator = required(options, "coordinator");
        query = required(options, "query");
        base = required(options, "hosts.base");
        command = required(options, "hosts.command");
        logs = options.containsKey("logs") ? options.get("logs") : "";
    }

    private static String required(CaseInsensitiveStringMap options, String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("nadi.Connector needs the option " + name);
        }
        return value;
    }
}
