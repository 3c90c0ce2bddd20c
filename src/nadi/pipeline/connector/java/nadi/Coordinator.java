package nadi;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What the coordinator is asked. It is in the process that has started this JVM, and ends with it: a connection that breaks is not
 * made again.
 */
final class Coordinator {
    private static final int LATEST = 'L';
    private static final int PLAN = 'P';
    private static final int COMMIT = 'C';

    private Coordinator() {}

    /** The batch up to which there is something to do; waits as long as there is nothing. */
    static long latest(LaneOptions options, long start) {
        return ByteBuffer.wrap(ask(options, LATEST, numbers(new long[] {start}), new byte[0][])).getLong();
    }

    /** The tasks of a batch. */
    static InputPartition[] plan(LaneOptions options, long start, long end) {
        ByteBuffer answer = ByteBuffer.wrap(ask(options, PLAN, numbers(new long[] {start, end}), new byte[0][]));
        InputPartition[] found = new InputPartition[answer.getInt()];
        for (int i = 0; i < found.length; i++) {
            int host = answer.getInt();
            byte[] place = new byte[answer.getShort() & 0xFFFF];
            answer.get(place);
            byte[] request = new byte[answer.getInt()];
            answer.get(request);
            found[i] = new LanePartition(host, new String(place, StandardCharsets.UTF_8), request);
        }
        return found;
    }

    /** A batch is through, with these receipts (byte arrays). */
    static void commit(LaneOptions options, long batch, List receipts) {
        ask(options, COMMIT, numbers(new long[] {batch}), Bodies.counted(receipts));
    }

    private static byte[] numbers(long[] values) {
        ByteBuffer made = ByteBuffer.allocate(8 * values.length);
        for (int i = 0; i < values.length; i++) {
            made.putLong(values[i]);
        }
        return made.array();
    }

    private static byte[] ask(LaneOptions options, int operation, byte[] numbers, byte[][] rest) {
        byte[][] parts = new byte[rest.length + 2][];
        parts[0] = text(options.query);
        parts[1] = numbers;
        System.arraycopy(rest, 0, parts, 2, rest.length);
        try {
            Connection connection = Connections.take(options.coordinator);
            try {
                if (connection == null) {
                    connection = Connection.open(options.coordinator);
                }
                connection.send(operation, parts);
                return connection.receiveOnly();
            } finally {
                Connections.release(connection);
            }
        } catch (ClosedByInterruptException stopped) {
            throw new UncheckedIOException(stopped);
        } catch (IOException broken) {
            throw new UncheckedIOException("the coordinator does not answer: " + broken.getMessage(), broken);
        }
    }

    private static byte[] text(String value) {
        byte[] encoded = value.getBytes(StandardCharsets.UTF_8);
        if (encoded.length > 0xFFFF) {
            throw new IllegalArgumentException("a text of " + encoded.length + " bytes is too long");
        }
        return ByteBuffer.allocate(2 + encoded.length).putShort((short) encoded.length).put(encoded).array();
    }
}
