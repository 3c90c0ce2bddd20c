package nadi;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Keeps receipts; sends the other rows to their hosts, one request for each, and keeps the receipts that they answer. */
final class LaneWriter implements DataWriter {
    private final LaneOptions options;
    private final ArrayList receipts = new ArrayList();
    private final TreeMap bodies = new TreeMap(); // host -> list of byte arrays

    LaneWriter(LaneOptions options) {
        this.options = options;
    }

    public void write(Object record) {
        InternalRow row = (InternalRow) record;
        int host = row.getInt(1);
        if (host < 0) {
            receipts.add(row.getBinary(2));
            return;
        }
        List there = (List) bodies.get(host);
        if (there == null) {
            there = new ArrayList();
            bodies.put(host, there);
        }
        there.add(row.getBinary(2));
    }

    public WriterCommitMessage commit() throws IOException {
        Iterator hosts = bodies.entrySet().iterator();
        while (hosts.hasNext()) {
            Map.Entry entry = (Map.Entry) hosts.next();
            int host = ((Integer) entry.getKey()).intValue();
            Hosts.Answer answer = Hosts.ask(options, host, Hosts.WRITE, Bodies.counted((List) entry.getValue()));
            boolean only = answer.connection.isIdle();
            Connections.release(answer.connection);
            if (!only) {
                throw new IllegalStateException("host " + host + " answers with several frames where a receipt is due");
            }
            receipts.add(answer.first);
        }
        return new LaneSink.Receipts(receipts);
    }

    /** Nothing was sent yet, or the host has done what counts only with its receipt. */
    public void abort() {}

    public void close() {}
}
