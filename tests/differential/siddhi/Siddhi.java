package nadi;

import com.google.gson.*;
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.query.output.callback.QueryCallback;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import io.siddhi.query.api.definition.Attribute;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

/**
 * Runs cases on Siddhi, as the comparison's own oracle does, with two more kinds of step. Standard input and output: a JSON object a line.
 *
 * In:  {"id", "app", "queries": [name…], "streams": [name…], "events": [step…]}, where a step is
 *      [stream, timestamp, [[value…]…]]   one chunk of events,
 *      ["?", timestamp, text]             an on-demand query,
 *      ["Pause", milliseconds, []]        to wait, for what Siddhi does by the machine's clock;
 *      with "faults": true failures are what the case is about: streams get them, and they do not spoil it.
 * Out: {"id", "got": [[query or stream, timestamp, rows or null, rows or null]…]}, where an answer comes from "?", and [["none"]] is one without rows,
 *      [["done"]] that of a change, [["refused"]] none at all; or {"id", "error": "Class: message"}.
 */
public final class Siddhi {
    private final SiddhiManager manager = new SiddhiManager();
    private final JsonArray got = new JsonArray();
    private final List<String> failed = Collections.synchronizedList(new ArrayList<>());

    public static void main(String[] a) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Gson gson = new GsonBuilder().serializeSpecialFloatingPointValues().serializeNulls().disableHtmlEscaping().create();
        ExecutorService threads = Executors.newCachedThreadPool(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonObject given = JsonParser.parseString(line).getAsJsonObject();
            Future<JsonObject> running = threads.submit(() -> new Siddhi().run(given));
            JsonObject result;
            try {
                result = running.get(15, TimeUnit.SECONDS);
            } catch (TimeoutException e) {
                running.cancel(true);
                result = error("TIMEOUT");
            } catch (ExecutionException e) {
                Throwable reason = e.getCause();
                result = error(reason.getClass().getSimpleName() + ": " + String.valueOf(reason.getMessage()).split("\n")[0]);
            }
            result.add("id", given.get("id"));
            out.println(gson.toJson(result));
            out.flush();
        }
        System.exit(0);
    }

    private static JsonObject error(String text) {
        JsonObject result = new JsonObject();
        result.addProperty("error", text);
        return result;
    }

    private JsonObject run(JsonObject given) throws Exception {
        try {
            SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(given.get("app").getAsString());
            listen(runtime, given);
            runtime.handleRuntimeExceptionWith(e -> failed.add(e.toString()));
            runtime.start();
            for (JsonElement step : given.getAsJsonArray("events")) {
                take(runtime, step.getAsJsonArray());
            }
            runtime.shutdown();
        } finally {
            manager.shutdown();
        }
        JsonObject result = new JsonObject();
        result.add("got", got);
        if (!failed.isEmpty() && !given.has("faults")) result.addProperty("failed", failed.get(0));
        return result;
    }

    private void listen(SiddhiAppRuntime runtime, JsonObject given) {
        for (JsonElement query : given.getAsJsonArray("queries")) {
            String name = query.getAsString();
            runtime.addCallback(name, new QueryCallback() {
                @Override public void receive(long timestamp, Event[] current, Event[] expired) {
                    add(name, timestamp, rows(current), rows(expired));
                }
            });
        }
        for (JsonElement stream : given.getAsJsonArray("streams")) {
            String name = stream.getAsString();
            runtime.addCallback(name, new StreamCallback() {
                @Override public void receive(Event[] events) {
                    add(name, events[0].getTimestamp(), rows(events), JsonNull.INSTANCE);
                }
            });
        }
    }

    private void add(String name, long timestamp, JsonElement current, JsonElement expired) {
        JsonArray call = new JsonArray();
        call.add(name);
        call.add(timestamp);
        call.add(current);
        call.add(expired);
        synchronized (got) { got.add(call); }
    }

    private void take(SiddhiAppRuntime runtime, JsonArray step) throws InterruptedException {
        String name = step.get(0).getAsString();
        long timestamp = step.get(1).getAsLong();
        if (name.equals("Pause")) {
            Thread.sleep(timestamp);
        } else if (name.equals("?")) {
            add("?", timestamp, answer(runtime, step.get(2).getAsString()), JsonNull.INSTANCE);
        } else {
            List<Attribute> types = runtime.getStreamDefinitionMap().get(name).getAttributeList();
            JsonArray rows = step.get(2).getAsJsonArray();
            Event[] chunk = new Event[rows.size()];
            for (int i = 0; i < chunk.length; i++) chunk[i] = new Event(timestamp, data(rows.get(i).getAsJsonArray(), types));
            InputHandler handler = runtime.getInputHandler(name);
            if (chunk.length == 1) handler.send(chunk[0]); else handler.send(chunk);
        }
    }

    private JsonElement answer(SiddhiAppRuntime runtime, String text) {
        try {
            Event[] found = runtime.query(text);
            return found == null ? said("none") : found.length == 0 ? said("done") : rows(found);
        } catch (RuntimeException reason) {
            return said("refused");
        }
    }

    private static JsonElement said(String what) {
        JsonArray row = new JsonArray(), all = new JsonArray();
        row.add(what);
        all.add(row);
        return all;
    }

    private static Object[] data(JsonArray row, List<Attribute> types) {
        Object[] data = new Object[row.size()];
        for (int i = 0; i < data.length; i++) {
            JsonElement value = row.get(i);
            if (value.isJsonNull()) continue;
            switch (types.get(i).getType()) {
                case INT: data[i] = value.getAsInt(); break;
                case LONG: data[i] = value.getAsLong(); break;
                case FLOAT: data[i] = value.getAsFloat(); break;
                case DOUBLE: data[i] = value.getAsDouble(); break;
                case BOOL: data[i] = value.getAsBoolean(); break;
                default: data[i] = value.getAsString();
            }
        }
        return data;
    }

    private static JsonElement rows(Event[] events) {
        if (events == null) return JsonNull.INSTANCE;
        JsonArray all = new JsonArray();
        for (Event event : events) {
            JsonArray row = new JsonArray();
            for (Object value : event.getData()) row.add(shown(value));
            all.add(row);
        }
        return all;
    }

    private static JsonElement shown(Object value) {
        if (value == null) return JsonNull.INSTANCE;
        if (value instanceof Boolean) return new JsonPrimitive((Boolean) value);
        if (value instanceof Number) return new JsonPrimitive((Number) value);
        if (value instanceof Collection) {
            JsonArray list = new JsonArray();
            for (Object item : (Collection<?>) value) list.add(shown(item));
            return list;
        }
        return new JsonPrimitive(value instanceof String ? (String) value : value.getClass().getSimpleName());
    }
}
