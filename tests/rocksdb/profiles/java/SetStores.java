import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Iterator;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Fills Kafka Streams' own stores under a config setter, and prints what each way of asking gives,
 * before they are closed and after they are opened again: with the setter's name in the
 * configuration, in a JVM that has not loaded RocksDB, then with its class. At last, the resident
 * bytes after opening a store 20 times and 200 times. Takes a folder, and the setter, or "none".
 */
public final class SetStores {
    private static final int ROWS = 400;
    private static final Serde<String> TEXT = Serdes.String();
    private static final Instant BEGIN = Instant.ofEpochMilli(1_700_000_000_000L);
    private static final Instant END = BEGIN.plus(Duration.ofMinutes(10));

    private final MockProcessorContext<Void, Void> context;

    private SetStores(final Path folder, final Object setter) {
        final Properties told = new Properties();
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, "set");
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:9092");
        if (!setter.equals("none")) {
            told.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, setter);
        }
        context = new MockProcessorContext<>(told, new TaskId(0, 0), folder.toFile());
    }

    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[0]);
        final String name = arguments[1];
        final SetStores named = new SetStores(folder.resolve("name"), name);
        named.ask("filled", true);
        named.ask("reopened", false);
        final SetStores classed =
            new SetStores(folder.resolve("class"), name.equals("none") ? name : Class.forName(name));
        classed.ask("by class", true);
        classed.openAgain(20);
        System.out.println("resident 20 = " + resident());
        classed.openAgain(180);
        System.out.println("resident 200 = " + resident());
    }

    private void ask(final String when, final boolean fill) {
        final KeyValueStore<String, String> plain = opened(plain());
        final TimestampedKeyValueStore<String, String> stamped = opened(timestamped());
        final WindowStore<String, String> windows = opened(windows());
        for (int i = 0; fill && i < ROWS; i++) {
            plain.put(key(i), "value" + i);
            stamped.put(key(i), ValueAndTimestamp.make("value" + i, 1_000L + i));
            windows.put(key(i / 10), "value" + i, BEGIN.toEpochMilli() + 60_000L * (i % 10));
        }
        told(when + " plain get", plain.get(key(7)) + plain.get("absent"));
        told(when + " plain range", plain.range(key(100), key(299)));
        told(when + " plain reverseRange", plain.reverseRange(key(100), key(299)));
        told(when + " plain prefixScan", plain.prefixScan("key1", TEXT.serializer()));
        told(when + " plain all", plain.all());
        told(when + " timestamped get", String.valueOf(stamped.get(key(7))));
        told(when + " timestamped range", stamped.range(key(100), key(299)));
        told(when + " timestamped reverseRange", stamped.reverseRange(key(100), key(299)));
        told(when + " timestamped prefixScan", stamped.prefixScan("key1", TEXT.serializer()));
        told(when + " window fetch", windows.fetch(key(7), BEGIN, END));
        told(when + " window fetch of keys", windows.fetch(key(7), key(20), BEGIN, END));
        told(when + " window backwardFetch", windows.backwardFetch(key(7), BEGIN, END));
        told(when + " window fetchAll", windows.fetchAll(BEGIN, END));
        plain.close();
        stamped.close();
        windows.close();
    }

    private static StoreBuilder<KeyValueStore<String, String>> plain() {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("plain"), TEXT, TEXT);
    }

    private static StoreBuilder<TimestampedKeyValueStore<String, String>> timestamped() {
        return Stores.timestampedKeyValueStoreBuilder(
            Stores.persistentTimestampedKeyValueStore("timestamped"), TEXT, TEXT);
    }

    private static StoreBuilder<WindowStore<String, String>> windows() {
        final Duration hour = Duration.ofHours(1);
        final Duration minute = Duration.ofMinutes(1);
        return Stores.windowStoreBuilder(
            Stores.persistentWindowStore("windows", hour, minute, false), TEXT, TEXT);
    }

    private <T extends StateStore> T opened(final StoreBuilder<T> builder) {
        final T store = builder.withLoggingDisabled().withCachingDisabled().build();
        store.init(context.getStateStoreContext(), store);
        return store;
    }

    private void openAgain(final int times) {
        for (int i = 0; i < times; i++) {
            final KeyValueStore<String, String> store = opened(plain());
            store.get(key(i));
            store.close();
        }
    }

    private static String key(final int number) {
        return String.format("key%03d", number);
    }

    private static void told(final String what, final String value) {
        System.out.println(what + " = " + value);
    }

    private static void told(final String what, final Iterator<?> rows) {
        final StringBuilder found = new StringBuilder();
        int number = 0;
        for (; rows.hasNext(); number++) {
            found.append(rows.next()).append(';');
        }
        if (rows instanceof KeyValueIterator) {
            ((KeyValueIterator<?, ?>) rows).close();
        }
        told(what, number + " rows " + found);
    }

    private static long resident() throws IOException {
        System.gc();
        final String pages = Files.readString(Path.of("/proc/self/statm")).split(" ")[1];
        return 4096 * Long.parseLong(pages);
    }
}
