import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/** What is in the stores, read through the application's own iterators, as JSON. */
final class Contents {
    private Contents() { }

    static void write(final Kept kept, final TopologyTestDriver driver, final Path file)
            throws IOException {
        final List<Object> stores = new ArrayList<>();
        new TreeMap<>(driver.getAllStateStores()).forEach(
            (name, store) -> stores.add(told(kept, name, store)));
        final Map<String, Object> all = new LinkedHashMap<>();
        all.put("application.id", kept.application);
        all.put("kafka_streams", kept.release);
        all.put("state", kept.state);
        all.put("stores", stores);
        new ObjectMapper().writeValue(file.toFile(), all);
    }

    private static Map<String, Object> told(
            final Kept kept, final String name, final StateStore store) {
        final boolean global = Files.isDirectory(kept.directory.resolve("global/rocksdb/" + name));
        final Map<String, Object> told = new LinkedHashMap<>();
        told.put("store", name);
        told.put("task", global ? "global" : "0_0");
        told.put("kind", kept.kinds.getOrDefault(name, "internal"));
        told.put("persistent", store.persistent());
        told.put("classes", classes(store));
        told.put("rows", rows(store));
        return told;
    }

    private static String classes(final StateStore store) {
        final String name = store.getClass().getSimpleName();
        return store instanceof WrappedStateStore<?, ?, ?> outer
            ? name + " > " + classes(outer.wrapped()) : name;
    }

    private static List<Map<String, Object>> rows(final StateStore store) {
        final List<Map<String, Object>> versions = Release.versions(store);
        if (!versions.isEmpty() || !(store instanceof WrappedStateStore<?, ?, ?> outer)) {
            return versions;
        }
        final List<KeyValue<?, ?>> typed = all(store, false);
        final List<KeyValue<?, ?>> raw = all(outer.wrapped(), true);
        if (typed.size() != raw.size()) {
            throw new IllegalStateException(store.name() + " has not as many rows in bytes");
        }
        final List<Map<String, Object>> rows = new ArrayList<>();
        for (int i = 0; i < typed.size(); i++) {
            rows.add(row(typed.get(i), raw.get(i)));
        }
        return rows;
    }

    @SuppressWarnings("unchecked")
    private static List<KeyValue<?, ?>> all(final StateStore store, final boolean raw) {
        final List<KeyValue<?, ?>> found = new ArrayList<>();
        if (store instanceof KeyValueStore<?, ?> keyValues) {
            drain(keyValues.all(), found);
        } else if (store instanceof WindowStore<?, ?> windows) {
            drain(windows.all(), found);
        } else if (store instanceof SessionStore<?, ?>) {
            for (final String user : Application.USERS) {
                final Object key = raw ? Bytes.wrap(user.getBytes(StandardCharsets.UTF_8)) : user;
                drain(((SessionStore<Object, Object>) store).fetch(key), found);
            }
        }
        return found;
    }

    private static <K, V> void drain(
            final KeyValueIterator<K, V> rows, final List<KeyValue<?, ?>> into) {
        try (rows) {
            rows.forEachRemaining(into::add);
        }
    }

    private static Map<String, Object> row(final KeyValue<?, ?> typed, final KeyValue<?, ?> raw) {
        final Map<String, Object> row = new LinkedHashMap<>();
        Object key = typed.key;
        Object keyBytes = raw.key;
        if (key instanceof Windowed<?> windowed) {
            row.put("start", windowed.window().start());
            row.put("end", windowed.window().end());
            key = windowed.key();
            keyBytes = ((Windowed<?>) keyBytes).key();
        }
        row.put("key", told(key));
        row.put("value", told(typed.value));
        row.put("key_hex", hex(((Bytes) keyBytes).get()));
        row.put("value_hex", hex((byte[]) raw.value));
        return row;
    }

    private static Object told(final Object value) {
        if (value instanceof byte[] bytes) {
            return Map.of("hex", hex(bytes));
        }
        if (value instanceof Bytes bytes) {
            return Map.of("hex", hex(bytes.get()));
        }
        if (value instanceof Number || value instanceof String) {
            return value;
        }
        if (value instanceof UUID uuid) {
            return uuid.toString();
        }
        final Map<String, Object> told = new LinkedHashMap<>();
        if (value instanceof ValueAndTimestamp<?> stamped) {
            told.put("value", told(stamped.value()));
            told.put("ts", stamped.timestamp());
            return told;
        }
        switch (value.getClass().getSimpleName()) {
            case "ValueTimestampHeaders" -> {
                told.put("value", told(get(value, "value")));
                told.put("ts", get(value, "timestamp"));
                told.put("headers", headers((Headers) get(value, "headers")));
            }
            case "AggregationWithHeaders" -> {
                told.put("value", told(get(value, "aggregation")));
                told.put("headers", headers((Headers) get(value, "headers")));
            }
            default -> told.put("toString", value.getClass().getSimpleName() + ":" + value);
        }
        return told;
    }

    private static List<List<String>> headers(final Headers headers) {
        final List<List<String>> told = new ArrayList<>();
        for (final Header each : headers) {
            told.add(Arrays.asList(each.key(), each.value() == null ? null : hex(each.value())));
        }
        return told;
    }

    /** Asks a class that releases before 4.3 have not. */
    private static Object get(final Object asked, final String property) {
        try {
            return asked.getClass().getMethod(property).invoke(asked);
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static String hex(final byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
