package nadi;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;

/** The source. An offset is the number of a batch, whose meaning only the coordinator knows. */
final class LaneSource implements MicroBatchStream, SupportsAdmissionControl {
    private final LaneOptions options;

    LaneSource(LaneOptions options) {
        this.options = options;
    }

    /** Spark tells only the other form where the query stands, and asks only that one. */
    public Offset latestOffset() {
        throw new UnsupportedOperationException("latestOffset(start, limit) is the one to ask");
    }

    public Offset latestOffset(Offset start, ReadLimit limit) {
        return new At(Coordinator.latest(options, number(start)));
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        return Coordinator.plan(options, number(start), number(end));
    }

    public PartitionReaderFactory createReaderFactory() {
        return new Readers(options);
    }

    public Offset initialOffset() {
        return new At(0);
    }

    public Offset deserializeOffset(String json) {
        return new At(Long.parseLong(json));
    }

    /** Nothing: the sink tells the coordinator that a batch is through, and this comes a batch later. */
    public void commit(Offset end) {}

    public void stop() {
        try {
            Connections.drop(options.coordinator);
        } catch (IOException reason) {
            throw new UncheckedIOException(reason);
        }
    }

    private static long number(Offset offset) {
        return Long.parseLong(offset.json());
    }

    static final class At extends Offset {
        private final long number;

        At(long number) {
            this.number = number;
        }

        public String json() {
            return Long.toString(number);
        }
    }

    static final class Readers implements PartitionReaderFactory {
        private final LaneOptions options;

        Readers(LaneOptions options) {
            this.options = options;
        }

        public PartitionReader createReader(InputPartition partition) {
            return new LaneReader(options, (LanePartition) partition);
        }
    }
}
