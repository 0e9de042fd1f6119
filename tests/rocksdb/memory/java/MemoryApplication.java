import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
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
import org.rocksdb.Options;
import org.rocksdb.RateLimiter;

/**
 * Keeps a store of each kind, does with them what the lines of its input say, and tells the gauges
 * of KIP-607 of each store, with the most that they ever were: bootstrap, state directory, id, topic.
 */
public final class MemoryApplication {
    private static final List<String> GAUGES = List.of(
        "size-all-mem-tables", "block-cache-usage", "block-cache-capacity", "estimate-table-readers-mem",
        "cur-size-active-mem-table", "num-immutable-mem-table");
    private static final Duration HOUR = Duration.ofHours(1);
    private static final long NOW = System.currentTimeMillis() / 3_600_000 * 3_600_000 + 60_000;
    private static final BlockingQueue<String> ASKED = new LinkedBlockingQueue<>();
    private static final BlockingQueue<String> DONE = new LinkedBlockingQueue<>();
    private static final Map<String, Long> MOST = new ConcurrentSkipListMap<>();

    private MemoryApplication() {}

    /** Flushes and compactions of all stores wait for it: what is written stays in memtables. */
    public static final class Slowly implements RocksDBConfigSetter {
        static {
            org.rocksdb.RocksDB.loadLibrary();
        }

        private static final RateLimiter LIMIT = new RateLimiter(1 << 20);

        @Override
        public void setConfig(
                final String storeName, final Options options, final Map<String, Object> configs) {
            options.setRateLimiter(LIMIT);
        }

        @Override
        public void close(final String storeName, final Options options) {}
    }

    public static void main(final String[] arguments) throws Exception {
        final Properties told = new Properties();
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        told.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        told.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Slowly.class);
        told.put("statestore.cache.max.bytes", "0");
        final BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (KafkaStreams streams = new KafkaStreams(topology(arguments[3]), told)) {
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
                if (line.equals("end")) {
                    Runtime.getRuntime().halt(0);
                }
                ASKED.put(line);
                System.out.println(DONE.take() + "\t" + told(gauges(streams)) + "\t" + told(MOST));
            }
        }
    }

    private static String told(final Map<String, Long> gauges) {
        final StringBuilder text = new StringBuilder("{");
        gauges.forEach((name, value) ->
            text.append(text.length() > 1 ? ", " : "").append('"').append(name).append("\": ").append(value));
        return text.append('}').toString();
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
                name.tags().forEach((tag, value) -> {
                    if (tag.startsWith("rocksdb-")) {
                        found.put(value + " " + name.name(), ((Number) each.getValue().metricValue()).longValue());
                    }
                });
            }
        }
        return found;
    }

    private static Topology topology(final String topic) {
        final Serde<byte[]> bytes = Serdes.ByteArray();
        final Topology topology = new Topology();
        topology.addSource("in", bytes.deserializer(), bytes.deserializer(), topic);
        topology.addProcessor("does", Doer::new, "in");
        topology.addStateStore(
            Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore("timestamped"), bytes, bytes).withLoggingDisabled(), "does");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("plain"), bytes, bytes).withLoggingDisabled(), "does");
        topology.addStateStore(
            Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(
                    "windows", HOUR.multipliedBy(2), HOUR, false), bytes, bytes).withLoggingDisabled(), "does");
        topology.addStateStore(
            Stores.sessionStoreBuilder(
                Stores.persistentSessionStore("sessions", HOUR.multipliedBy(2)), bytes, bytes).withLoggingDisabled(), "does");
        return topology;
    }

    private static final class Doer implements Processor<byte[], byte[], Void, Void> {
        private final Random random = new Random(7);
        private final List<KeyValueIterator<?, ?>> open = new ArrayList<>();
        private long number;
        private TimestampedKeyValueStore<byte[], byte[]> timestamped;
        private KeyValueStore<byte[], byte[]> plain;
        private TimestampedWindowStore<byte[], byte[]> windows;
        private SessionStore<byte[], byte[]> sessions;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            timestamped = context.getStateStore("timestamped");
            plain = context.getStateStore("plain");
            windows = context.getStateStore("windows");
            sessions = context.getStateStore("sessions");
            context.schedule(Duration.ofMillis(10), PunctuationType.WALL_CLOCK_TIME, at -> {
                final String asked = ASKED.poll();
                if (asked != null) {
                    DONE.add(did(asked.split(" ")));
                }
            });
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {}

        private String did(final String[] words) {
            final long began = System.nanoTime();
            switch (words[0]) {
                case "write":
                    write(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]));
                    break;
                case "limit":
                    Slowly.LIMIT.setBytesPerSecond(Long.parseLong(words[1]));
                    break;
                case "read":
                    read(words[1]);
                    break;
                case "hold":
                    open.add(rows(words[1]));
                    open.get(open.size() - 1).next();
                    break;
                case "release":
                    open.forEach(KeyValueIterator::close);
                    open.clear();
                    break;
                case "commit":
                case "look":
                    break;
                default:
                    throw new IllegalArgumentException(String.join(" ", words));
            }
            return String.join(" ", words) + " " + (System.nanoTime() - began) / 1_000_000 + " ms";
        }

        private void write(final String store, final long total, final int size) {
            final byte[] value = new byte[size];
            for (long done = 0; done < total; done += size) {
                random.nextBytes(value);
                final byte[] key = ByteBuffer.allocate(16).putLong(random.nextLong()).putLong(number++).array();
                switch (store) {
                    case "timestamped":
                        timestamped.put(key, ValueAndTimestamp.make(value, NOW));
                        break;
                    case "plain":
                        plain.put(key, value);
                        break;
                    case "windows":
                        windows.put(key, ValueAndTimestamp.make(value, NOW), NOW - done % 2 * 3_600_000);
                        break;
                    case "sessions":
                        sessions.put(new Windowed<>(key, new SessionWindow(NOW, NOW)), value);
                        break;
                    default:
                        throw new IllegalArgumentException(store);
                }
            }
        }

        private void read(final String store) {
            try (KeyValueIterator<?, ?> rows = rows(store)) {
                while (rows.hasNext()) {
                    rows.next();
                }
            }
        }

        private KeyValueIterator<?, ?> rows(final String store) {
            switch (store) {
                case "timestamped":
                    return timestamped.all();
                case "plain":
                    return plain.all();
                case "windows":
                    return windows.all();
                default:
                    return sessions.findSessions(null, null, NOW - 1, NOW + 1);
            }
        }
    }
}
