package nadi;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Starts the hosts of an executor as soon as it is there, so that the first batch, and an app that comes from a node that died, need
 * not wait for them. One that does not start is no failure of the executor: whoever needs it starts it, and hears why it cannot be.
 */
public final class EarlyHosts implements SparkPlugin {
    public DriverPlugin driverPlugin() {
        return null;
    }

    public ExecutorPlugin executorPlugin() {
        return new Starter();
    }

    static final class Starter implements ExecutorPlugin {
        public void init(PluginContext context, Map extra) {
            SparkConf conf = context.conf();
            int count = conf.getInt("spark.nadi.hosts.count", 0);
            for (int host = 0; host < count; host++) {
                Thread thread = new Thread(new Start(options(conf), host), "host " + host);
                thread.setDaemon(true);
                thread.start();
            }
        }

        private static LaneOptions options(SparkConf conf) {
            Map given = new HashMap();
            given.put("coordinator", ""); // nobody asks it from here
            given.put("query", "");
            given.put("hosts.base", conf.get("spark.nadi.hosts.base"));
            given.put("hosts.command", conf.get("spark.nadi.hosts.python") + "\n-m\n" + conf.get("spark.nadi.hosts.module"));
            return new LaneOptions(new CaseInsensitiveStringMap(given));
        }
    }

    static final class Start implements Runnable {
        private final LaneOptions options;
        private final int host;

        Start(LaneOptions options, int host) {
            this.options = options;
            this.host = host;
        }

        public void run() {
            try {
                Hosts.start(options, host);
            } catch (IOException reason) {
                System.err.println("host " + host + " was not started early: " + reason.getMessage());
            }
        }
    }
}
