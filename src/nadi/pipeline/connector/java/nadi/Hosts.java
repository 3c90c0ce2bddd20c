package nadi;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManagerId;

/**
 * The hosts of this JVM: how they are asked, and started where they do not answer.
 *
 * <p>Spark tries a failed task again at once, and ends the query after some times, all of which are over before a process can
 * start. So a host that has died is started again in here; Spark's tries are left for lost executors.
 */
final class Hosts {
    static final int READ = 'R';
    static final int WRITE = 'W';
    private static final int ATTEMPTS = 6;
    private static final long STARTS_WITHIN = TimeUnit.SECONDS.toNanos(60);
    private static final long SPAWNS_AGAIN = TimeUnit.MILLISECONDS.toNanos(500);
    private static final long HANDED_WITHIN = TimeUnit.MILLISECONDS.toNanos(400);
    private static final int LOOKS_AGAIN = 5;
    private static final int SERVED = 1;
    private static final String PLACE = "NADI_PLACE"; // nadi.pipeline.hosting.seats reads it

    private static final long JVM = ManagementFactory.getRuntimeMXBean().getPid();
    private static final ConcurrentHashMap STARTING = new ConcurrentHashMap();
    private static final ConcurrentHashMap OWN = new ConcurrentHashMap();

    private Hosts() {}

    /** What a host has answered so far: the first frame, and the connection, for the others; whoever gets it releases it. */
    static final class Answer {
        final Connection connection;
        final byte[] first;

        Answer(Connection connection, byte[] first) {
            this.connection = connection;
            this.first = first;
        }
    }

    /** Ask a host, which is started where it is not there; ask again where the connection breaks before the first frame has come. */
    static Answer ask(LaneOptions options, int host, int operation, byte[][] parts) throws IOException {
        for (int attempt = 1; true; attempt++) {
            Connection connection = null;
            boolean answered = false;
            try {
                connection = connected(options, host);
                connection.send(operation, parts);
                Answer answer = new Answer(connection, connection.receive());
                answered = true;
                return answer;
            } catch (ClosedByInterruptException stopped) {
                throw stopped;
            } catch (NotStarted reason) {
                throw unavailable(options, host, reason);
            } catch (IOException broken) {
                if (attempt == ATTEMPTS) {
                    throw unavailable(options, host, broken);
                }
                pause(Math.min(1000, 20 << 2 * (attempt - 1)));
            } finally {
                if (!answered) {
                    Connections.release(connection);
                }
            }
        }
    }

    /** Start a host where it is not there, and wait until it answers. */
    static void start(LaneOptions options, int host) throws IOException {
        Connections.release(connected(options, host));
    }

    /** The failure of a host, in the words of nadi's catalogue, by which Python finds the condition. */
    static IOException unavailable(LaneOptions options, int host, IOException reason) {
        return new IOException(
            "nadi.errors.exceptions.ConnectionUnavailableException: [HOST_UNAVAILABLE] an executor host does not answer: "
                + reason.getMessage() + " (it is started again; its log is " + log(options, host) + ")",
            reason);
    }

    private static Connection connected(LaneOptions options, int host) throws IOException {
        String path = folder(options) + "/" + host + ".lane";
        Connection idle = Connections.take(path);
        return idle == null ? opened(options, host, path) : idle;
    }

    /** A new connection, to a host that is started if need be. */
    private static Connection opened(LaneOptions options, int host, String path) throws IOException {
        ReentrantLock lock = lock(path);
        try {
            return awaited(options, host, path, lock);
        } finally {
            if (lock.isHeldByCurrentThread()) {
                lock.unlock();
            }
        }
    }

    /** One thread, which gets the lock, starts the host; the others look whether it is there. */
    private static Connection awaited(LaneOptions options, int host, String path, ReentrantLock lock) throws IOException {
        long until = System.nanoTime() + STARTS_WITHIN;
        long spawned = 0;
        long handed = System.nanoTime() + (isHanded(options, host) ? HANDED_WITHIN : 0);
        Process process = null;
        Connection made = tried(path);
        while (made == null) {
            long now = System.nanoTime();
            if (now - until > 0) {
                throw new NotStarted("host " + host + " did not start in time");
            }
            if (now - handed >= 0 && (lock.isHeldByCurrentThread() || lock.tryLock())) {
                if (process == null || servedByAnother(process, host) && now - spawned > SPAWNS_AGAIN) {
                    process = spawn(options, host);
                    spawned = now;
                }
            }
            pause(LOOKS_AGAIN);
            made = tried(path);
        }
        return made;
    }

    /** Whether the node has a process stand by (nadi.pipeline.hosting.standby), which becomes this host if that has died. */
    private static boolean isHanded(LaneOptions options, int host) throws IOException {
        File folder = new File(folder(options));
        return new File(folder, "standby").exists() && new File(folder, host + ".work").exists();
    }

    /** A connection, or null where nobody listens. */
    private static Connection tried(String path) throws IOException {
        try {
            return Connection.open(path);
        } catch (ClosedByInterruptException stopped) {
            throw stopped;
        } catch (IOException refused) {
            return null;
        }
    }

    /**
     * Whether a process that was to be the host has ended because another one is. That one will answer in a moment, or is on its way
     * out, so that a host has to be started once more. Any other end is a failure.
     */
    private static boolean servedByAnother(Process process, int host) throws IOException {
        if (process.isAlive()) {
            return false;
        }
        if (process.exitValue() != SERVED) {
            throw new IOException("host " + host + " ended with status " + process.exitValue() + " when it started");
        }
        return true;
    }

    private static Process spawn(LaneOptions options, int host) throws IOException {
        File folder = new File(folder(options));
        makePrivate(folder.toPath());
        List command = new ArrayList(Arrays.asList((Object[]) options.command.split("\n")));
        command.add(folder.getPath());
        command.add(String.valueOf(host));
        command.add(String.valueOf(JVM));
        File log = new File(log(options, host));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put(PLACE, place());
        builder.redirectInput(new File("/dev/null"));
        builder.redirectErrorStream(true);
        builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log));
        return builder.start();
    }

    /** What Spark calls this JVM where a task prefers it; the driver's ends with its id, {@code driver}. */
    private static String place() {
        BlockManagerId own = SparkEnv.get().blockManager().blockManagerId();
        return "executor_" + own.host() + "_" + own.executorId();
    }

    /** The folder of this JVM's hosts, in one that belongs to this user: nobody else may put a socket there. */
    private static String folder(LaneOptions options) throws IOException {
        String folder = options.base + "/" + JVM;
        if (!OWN.containsKey(folder)) {
            Path base = new File(options.base).toPath();
            makePrivate(base);
            Path probe = Files.createTempFile(base, "own", "", new FileAttribute[0]);
            boolean own = Files.getOwner(base).equals(Files.getOwner(probe));
            Files.delete(probe);
            String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(base));
            if (!own || mode.charAt(4) == 'w' || mode.charAt(7) == 'w') {
                throw new NotStarted(options.base + " belongs to somebody else, or others may write to it");
            }
            OWN.put(folder, folder);
        }
        return folder;
    }

    private static void makePrivate(Path folder) throws IOException {
        FileAttribute[] owner = {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))};
        Files.createDirectories(folder, owner);
    }

    private static String log(LaneOptions options, int host) {
        return options.logs.isEmpty() ? options.base + "/" + JVM + "/" + host + ".log" : options.logs + "/host-" + host + ".log";
    }

    private static ReentrantLock lock(String path) {
        ReentrantLock fresh = new ReentrantLock();
        ReentrantLock there = (ReentrantLock) STARTING.putIfAbsent(path, fresh);
        return there == null ? fresh : there;
    }

    private static void pause(int milliseconds) throws IOException {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new ClosedByInterruptException();
        }
    }

    /** Another attempt cannot help. */
    static final class NotStarted extends IOException {
        NotStarted(String reason) {
            super(reason);
        }
    }
}
