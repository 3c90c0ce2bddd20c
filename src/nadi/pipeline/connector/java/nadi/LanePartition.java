package nadi;

import org.apache.spark.sql.connector.read.InputPartition;

/** A task of the source: the host that it asks, and what. */
final class LanePartition implements InputPartition {
    final int host;
    final String place;
    final byte[] request;

    LanePartition(int host, String place, byte[] request) {
        this.host = host;
        this.place = place;
        this.request = request;
    }

    public String[] preferredLocations() {
        return place.isEmpty() ? new String[0] : new String[] {place};
    }
}
