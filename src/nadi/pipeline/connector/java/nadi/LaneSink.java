package nadi;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** The sink: what its tasks bring are receipts, which go to the coordinator when all are through. */
final class LaneSink implements StreamingWrite {
    private final LaneOptions options;

    LaneSink(LaneOptions options) {
        this.options = options;
    }

    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
        return new Writers(options);
    }

    /** Spark asks for leave once per task otherwise. Two attempts at a task may both be through: hosts do the same work twice then. */
    public boolean useCommitCoordinator() {
        return false;
    }

    public void commit(long batch, WriterCommitMessage[] messages) {
        List receipts = new ArrayList();
        for (int i = 0; i < messages.length; i++) {
            if (messages[i] != null) {
                receipts.addAll(((Receipts) messages[i]).all);
            }
        }
        Coordinator.commit(options, batch, receipts);
    }

    /** Nothing: what hosts have made counts only once the coordinator has its receipts, and the query ends, which the node sees. */
    public void abort(long batch, WriterCommitMessage[] messages) {}

    /** What a task brings: byte arrays. */
    static final class Receipts implements WriterCommitMessage {
        final ArrayList all;

        Receipts(ArrayList all) {
            this.all = all;
        }
    }

    static final class Writers implements StreamingDataWriterFactory {
        private final LaneOptions options;

        Writers(LaneOptions options) {
            this.options = options;
        }

        public DataWriter createWriter(int partition, long task, long batch) {
            return new LaneWriter(options);
        }
    }
}
