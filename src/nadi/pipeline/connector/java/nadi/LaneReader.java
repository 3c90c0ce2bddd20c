package nadi;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/** Asks the host of a partition and gives its rows, a frame at a time. */
final class LaneReader implements PartitionReader {
    private final LaneOptions options;
    private final LanePartition partition;
    private Connection connection = null;
    private ByteBuffer rows = null;
    private GenericInternalRow row = null;

    LaneReader(LaneOptions options, LanePartition partition) {
        this.options = options;
        this.partition = partition;
    }

    public boolean next() throws IOException {
        if (rows == null) {
            Hosts.Answer answer = Hosts.ask(options, partition.host, Hosts.READ, new byte[][] {partition.request});
            connection = answer.connection;
            take(answer.first);
        }
        while (!rows.hasRemaining()) {
            if (connection == null) {
                return false;
            }
            take(following());
        }
        row = parse();
        return true;
    }

    /**
     * The next frame. Rows have been given: what breaks here cannot be asked again without giving them twice. So the task fails, and
     * its repetition starts the host.
     */
    private byte[] following() throws IOException {
        try {
            return connection.receive();
        } catch (ClosedByInterruptException stopped) {
            throw stopped;
        } catch (IOException broken) {
            throw Hosts.unavailable(options, partition.host, broken);
        }
    }

    private void take(byte[] frame) throws IOException {
        rows = ByteBuffer.wrap(frame);
        if (connection.isIdle()) {
            Connections.release(connection);
            connection = null;
        }
    }

    public Object get() {
        return row;
    }

    private GenericInternalRow parse() {
        Object bk = rows.getInt();
        Object host = rows.getInt();
        byte[] body = new byte[rows.getInt()];
        rows.get(body);
        return new GenericInternalRow(new Object[] {bk, host, body});
    }

    public void close() throws IOException {
        Connections.release(connection);
        connection = null;
    }
}
