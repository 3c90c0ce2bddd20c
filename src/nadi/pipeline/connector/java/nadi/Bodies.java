package nadi;

import java.nio.ByteBuffer;
import java.util.List;

/** Byte arrays as a part of a payload: u32 how many, then each as u32 length and bytes. */
final class Bodies {
    private Bodies() {}

    /** The parts of the payload, without copies of the bytes. */
    static byte[][] counted(List bodies) {
        byte[][] parts = new byte[1 + 2 * bodies.size()][];
        parts[0] = count(bodies.size());
        for (int i = 0; i < bodies.size(); i++) {
            byte[] body = (byte[]) bodies.get(i);
            parts[1 + 2 * i] = count(body.length);
            parts[2 + 2 * i] = body;
        }
        return parts;
    }

    private static byte[] count(int value) {
        return ByteBuffer.allocate(4).putInt(value).array();
    }
}
