package nadi;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/**
 * A connection to a Python process that answers requests, one at a time.
 *
 * <p>Big endian. Request: u32 length, u64 id, u8 operation, payload. Answer: u32 length, u64 id, u8 status, payload, with the id of
 * its request. The length counts what follows it. Status 0 is the last frame, 2 says that more follow, 1 that the request failed:
 * the payload is the text of the failure.
 *
 * <p>A thread that is interrupted in here gets a ClosedByInterruptException, as Spark expects when a query is stopped.
 */
final class Connection implements Closeable {
    private static final int LAST = 0;
    private static final int FAILED = 1;
    private static final int MORE = 2;
    private static final int AFTER_LENGTH = 9;
    private static final int HEAD = 4 + AFTER_LENGTH;
    private static final int BUFFER = 64 * 1024;
    private static final int LONGEST = Integer.MAX_VALUE - 63;

    final String path;
    private final SocketChannel channel;
    // Buffers of its own: for arrays Java would make one outside the heap as large as the array, for each thread, and keep it.
    private final ByteBuffer sending = ByteBuffer.allocateDirect(BUFFER);
    private final ByteBuffer received = ByteBuffer.allocateDirect(BUFFER);
    private long number = 0;
    private boolean idle = true;

    private Connection(String path, SocketChannel channel) {
        this.path = path;
        this.channel = channel;
        received.limit(0);
    }

    static Connection open(String path) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        boolean connected = false;
        try {
            channel.connect(UnixDomainSocketAddress.of(path));
            connected = true;
        } finally {
            if (!connected) {
                channel.close();
            }
        }
        return new Connection(path, channel);
    }

    /** Whether the answer has been received to its end, so that another request may be sent. */
    boolean isIdle() {
        return idle;
    }

    /** Whether an idle connection still stands: the other side has neither closed it nor sent what nobody asked for. */
    boolean stands() {
        try {
            channel.configureBlocking(false);
            received.clear();
            int got = channel.read(received);
            received.limit(0);
            channel.configureBlocking(true);
            return got == 0;
        } catch (IOException broken) {
            return false;
        }
    }

    /** Send a request whose payload is in parts. */
    void send(int operation, byte[][] parts) throws IOException {
        long length = AFTER_LENGTH;
        for (int i = 0; i < parts.length; i++) {
            length += parts[i].length;
        }
        if (length > LONGEST) {
            throw new IllegalArgumentException("a request of " + length + " bytes is longer than " + LONGEST);
        }
        idle = false;
        number++;
        sending.clear();
        sending.putInt((int) length).putLong(number).put((byte) operation);
        for (int i = 0; i < parts.length; i++) {
            put(parts[i]);
        }
        flush();
    }

    private void put(byte[] part) throws IOException {
        int at = 0;
        while (at < part.length) {
            if (!sending.hasRemaining()) {
                flush();
            }
            int size = Math.min(part.length - at, sending.remaining());
            sending.put(part, at, size);
            at += size;
        }
    }

    private void flush() throws IOException {
        sending.flip();
        while (sending.hasRemaining()) {
            channel.write(sending);
        }
        sending.clear();
    }

    /** The payload of the next frame of the answer; a failed answer is an exception with its text as the message. */
    byte[] receive() throws IOException {
        while (received.remaining() < HEAD) {
            fill();
        }
        long length = received.getInt() & 0xFFFFFFFFL;
        long answered = received.getLong();
        int status = received.get();
        if (answered != number) {
            throw new IllegalStateException("an answer to request " + answered + " came for request " + number);
        }
        if (length < AFTER_LENGTH || length > LONGEST || status < LAST || status > MORE) {
            throw new IllegalStateException("an answer of status " + status + " and " + length + " bytes is not one of nadi");
        }
        byte[] payload = new byte[(int) length - AFTER_LENGTH];
        int at = 0;
        while (at < payload.length) {
            if (!received.hasRemaining()) {
                fill();
            }
            int size = Math.min(payload.length - at, received.remaining());
            received.get(payload, at, size);
            at += size;
        }
        idle = status != MORE;
        if (status == FAILED) {
            throw new RuntimeException(new String(payload, StandardCharsets.UTF_8));
        }
        return payload;
    }

    /** The payload of an answer that has one frame. */
    byte[] receiveOnly() throws IOException {
        byte[] payload = receive();
        if (!idle) {
            throw new IllegalStateException("an answer has several frames where one is due");
        }
        return payload;
    }

    private void fill() throws IOException {
        received.compact();
        int got = channel.read(received);
        received.flip();
        if (got < 0) {
            throw new EOFException("the other side has closed " + path);
        }
    }

    public void close() throws IOException {
        channel.close();
    }
}
