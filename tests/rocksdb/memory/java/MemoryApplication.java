import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RateLimiter;
import org.rocksdb.RocksDB;
import org.rocksdb.WriteBufferManager;

/**
 * Keeps a store of each kind, does with them what the lines of its input say, and answers each with
 * RocksDB's properties by KIP-607's gauges, now and at most: bootstrap, state directory, id, topic.
 */
public final class MemoryApplication {
    private static final List<String> GAUGES = List.of(
        "size-all-mem-tables", "block-cache-usage", "estimate-table-readers-mem",
        "num-immutable-mem-table", "num-running-flushes", "num-running-compactions");
    private static final Duration HOUR = Duration.ofHours(1);
    private static final long NOW = System.currentTimeMillis() / 3_600_000 * 3_600_000 + 60_000;
    private static final BlockingQueue<String> ASKED = new LinkedBlockingQueue<>();
    private static final BlockingQueue<String> DONE = new LinkedBlockingQueue<>();
    private static final Map<String, Long> MOST = new ConcurrentSkipListMap<>();

    private MemoryApplication() {}

    /**
     * Has flushes and compactions go no faster than it is told, so that memtables fill; and gives
     * the stores named "shared-" one cache and one budget together, and a log that tells of them.
     */
    public static final class Setter implements RocksDBConfigSetter {
        static {
            RocksDB.loadLibrary();
        }

        private static final RateLimiter LIMIT = new RateLimiter(1 << 20);
        private static final Cache CACHE = new LRUCache(16L << 20);
        private static final WriteBufferManager BUDGET = new WriteBufferManager(64L << 20, new LRUCache(1L << 20));

        @Override
        public void setConfig(
                final String store, final Options options, final Map<String, Object> configs) {
            options.setRateLimiter(LIMIT);
            if (store.startsWith("shared-")) {
                ((BlockBasedTableConfig) options.tableFormatConfig()).setBlockCache(CACHE);
                options.setTableFormatConfig(options.tableFormatConfig());
                options.setWriteBufferManager(BUDGET);
                options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL);
            }
        }

        @Override
        public void close(final String store, final Options options) {}
    }

    public static void main(final String[] arguments) throws Exception {
        final Properties told = new Properties();
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        told.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        told.put(
            StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG,
            System.getProperty("setter", Setter.class.getName()));
        told.put("statestore.cache.max.bytes", "0");
        final BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final KafkaStreams streams = new KafkaStreams(topology(arguments[3]), told);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        final Thread sampling = new Thread(() -> sample(streams));
        sampling.setDaemon(true);
        sampling.start();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ASKED.put(line);
            DONE.take();
            System.out.println(told(gauges(streams)) + "\t" + told(MOST));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void sample(final KafkaStreams streams) {
        try {
            while (true) {
                gauges(streams).forEach((name, value) -> MOST.merge(name, value, Math::max));
                Thread.sleep(5);
            }
        } catch (final InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static Map<String, Long> gauges(final KafkaStreams streams) {
        final Map<String, Long> found = new TreeMap<>();
        for (final Map.Entry<MetricName, ? extends Metric> each : streams.metrics().entrySet()) {
            final MetricName name = each.getKey();
            if (GAUGES.contains(name.name())) {
                final long value = ((Number) each.getValue().metricValue()).longValue();
                name.tags().forEach((tag, store) -> {
                    if (tag.startsWith("rocksdb-")) {
                        found.put(store + " " + name.name(), value);
                    }
                });
            }
        }
        return found;
    }

    private static String told(final Map<String, Long> gauges) {
        final List<String> fields = new ArrayList<>();
        gauges.forEach((name, value) -> fields.add('"' + name + "\": " + value));
        return "{" + String.join(", ", fields) + "}";
    }

    private static Topology topology(final String topic) {
        final Serde<byte[]> bytes = Serdes.ByteArray();
        final Topology topology = new Topology();
        topology.addSource("in", bytes.deserializer(), bytes.deserializer(), topic);
        topology.addProcessor("does", Doer::new, "in");
        topology.addStateStore(
            Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore("timestamped"), bytes, bytes)
                .withLoggingDisabled(), "does");
        for (final String name : List.of("plain", "shared-a", "shared-b")) {
            topology.addStateStore(
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), bytes, bytes)
                    .withLoggingDisabled(), "does");
        }
        topology.addStateStore(
            Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(
                    "windows", HOUR.multipliedBy(2), HOUR, false), bytes, bytes)
                .withLoggingDisabled(), "does");
        topology.addStateStore(
            Stores.sessionStoreBuilder(
                Stores.persistentSessionStore("sessions", HOUR.multipliedBy(2)), bytes, bytes)
                .withLoggingDisabled(), "does");
        return topology;
    }

    private static final class Doer implements Processor<byte[], byte[], Void, Void> {
        private final Random random = new Random(7);
        private final List<KeyValueIterator<?, ?>> held = new ArrayList<>();
        private final Map<String, KeyValueStore<byte[], byte[]>> plain = new HashMap<>();
        private TimestampedKeyValueStore<byte[], byte[]> timestamped;
        private TimestampedWindowStore<byte[], byte[]> windows;
        private SessionStore<byte[], byte[]> sessions;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            for (final String name : List.of("plain", "shared-a", "shared-b")) {
                plain.put(name, context.getStateStore(name));
            }
            timestamped = context.getStateStore("timestamped");
            windows = context.getStateStore("windows");
            sessions = context.getStateStore("sessions");
            context.schedule(Duration.ofMillis(10), PunctuationType.WALL_CLOCK_TIME, at -> {
                final String asked = ASKED.poll();
                if (asked != null) {
                    perform(asked.split(" "));
                    DONE.add(asked);
                }
            });
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {}

        private void perform(final String[] words) {
            switch (words[0]) {
                case "limit":
                    Setter.LIMIT.setBytesPerSecond(Long.parseLong(words[1]));
                    break;
                case "write":
                    write(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]));
                    break;
                case "read":
                    try (KeyValueIterator<?, ?> rows = rows(words[1])) {
                        while (rows.hasNext()) {
                            rows.next();
                        }
                    }
                    break;
                case "hold":
                    held.add(rows(words[1]));
                    held.get(held.size() - 1).next();
                    break;
                case "release":
                    held.forEach(KeyValueIterator::close);
                    held.clear();
                    break;
                case "look":
                    break;
                default:
                    throw new IllegalArgumentException(words[0]);
            }
        }

        private void write(final String store, final long total, final int size) {
            final byte[] value = new byte[size];
            for (long done = 0; done < total; done += size) {
                random.nextBytes(value);
                final byte[] key = ByteBuffer.allocate(8).putLong(random.nextLong()).array();
                switch (store) {
                    case "timestamped":
                        timestamped.put(key, ValueAndTimestamp.make(value, NOW));
                        break;
                    case "windows":
                        windows.put(key, ValueAndTimestamp.make(value, NOW), NOW);
                        break;
                    case "sessions":
                        sessions.put(new Windowed<>(key, new SessionWindow(NOW, NOW)), value);
                        break;
                    default:
                        plain.get(store).put(key, value);
                }
            }
        }

        private KeyValueIterator<?, ?> rows(final String store) {
            switch (store) {
                case "timestamped":
                    return timestamped.all();
                case "windows":
                    return windows.all();
                case "sessions":
                    return sessions.findSessions(null, null, NOW - 1, NOW + 1);
                default:
                    return plain.get(store).all();
            }
        }
    }
}
