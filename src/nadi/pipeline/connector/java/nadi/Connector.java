package nadi;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The source and the sink of nadi's queries, for {@code format("nadi.Connector")}. It decides nothing: each step of a batch is a
 * request to a Python process, the coordinator or a host (see {@link Connection}; options: {@link LaneOptions}).
 *
 * <p>All of this package compiles with javac and with Janino, which infers no generics, knows no lambdas and makes no bridge
 * methods: interfaces with type parameters are implemented raw, with exactly the types that they erase to.
 */
public final class Connector implements TableProvider {
    /** bk: what Spark repartitions by; host: where the row goes, negative for a receipt; body: what only Python reads. */
    static final StructType ROWS = new StructType()
        .add("bk", DataTypes.IntegerType, false)
        .add("host", DataTypes.IntegerType, false)
        .add("body", DataTypes.BinaryType, false);

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return ROWS;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new Lanes();
    }

    static final class Lanes implements SupportsRead, SupportsWrite {
        public String name() {
            return "nadi";
        }

        public StructType schema() {
            return ROWS;
        }

        public Set capabilities() {
            return EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new Reading(new LaneOptions(options));
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return new Writing(new LaneOptions(info.options()));
        }
    }

    static final class Reading implements ScanBuilder, Scan {
        final LaneOptions options;

        Reading(LaneOptions options) {
            this.options = options;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return ROWS;
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new LaneSource(options);
        }
    }

    static final class Writing implements WriteBuilder, Write {
        final LaneOptions options;

        Writing(LaneOptions options) {
            this.options = options;
        }

        public Write build() {
            return this;
        }

        public StreamingWrite toStreaming() {
            return new LaneSink(options);
        }
    }
}
