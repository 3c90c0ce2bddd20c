package nadi;

import java.io.IOException;
import java.util.Deque;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;

/** The idle connections of this JVM, by the path of the socket. */
final class Connections {
    private static final ConcurrentHashMap IDLE = new ConcurrentHashMap();

    private Connections() {}

    /** An idle connection that stands, or null. */
    static Connection take(String path) throws IOException {
        Deque idle = idle(path);
        while (true) {
            Connection found = (Connection) idle.pollFirst();
            if (found == null || found.stands()) {
                return found;
            }
            found.close();
        }
    }

    /** Keep a connection for others, or close it where its answer was not received to the end. Null is neither. */
    static void release(Connection connection) throws IOException {
        if (connection == null) {
            return;
        }
        if (connection.isIdle()) {
            idle(connection.path).addFirst(connection);
        } else {
            connection.close();
        }
    }

    /** Close the idle ones of a path. */
    static void drop(String path) throws IOException {
        Deque idle = (Deque) IDLE.remove(path);
        while (idle != null && !idle.isEmpty()) {
            Connection found = (Connection) idle.pollFirst();
            if (found != null) {
                found.close();
            }
        }
    }

    private static Deque idle(String path) {
        Deque fresh = new ConcurrentLinkedDeque();
        Deque there = (Deque) IDLE.putIfAbsent(path, fresh);
        return there == null ? fresh : there;
    }
}
