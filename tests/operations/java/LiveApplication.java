import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/**
 * Reads the topics "actions" and "replies" of a real broker up to so many records, keeps a store of
 * every kind, and closes: bootstrap, state directory, records, format of the stores.
 */
public final class LiveApplication {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration HOUR = Duration.ofHours(1);

    private LiveApplication() {}

    public static void main(final String[] arguments) throws InterruptedException {
        final Properties told = new Properties();
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        told.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        told.put("default.key.serde", Serdes.StringSerde.class.getName());
        told.put("default.value.serde", Serdes.StringSerde.class.getName());
        told.put("statestore.cache.max.bytes", "0");
        told.put("auto.offset.reset", "earliest");
        told.put("dsl.store.format", arguments[3]);
        told.put("metrics.recording.level", System.getProperty("level", "INFO"));
        if (Boolean.getBoolean("pressed")) {
            told.put("rocksdb.config.setter", Pressed.class);
        }
        final CountDownLatch left = new CountDownLatch(Integer.parseInt(arguments[2]));
        try (KafkaStreams streams = new KafkaStreams(topology(left, arguments[4]), told)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            if (!left.await(100, TimeUnit.SECONDS)) {
                throw new IllegalStateException(left.getCount() + " records did not come");
            }
            // What is sent to topics of its own comes back; or somebody looks at its metrics.
            final long linger = Long.getLong("linger.ms", 1_000);
            Thread.sleep(linger / 2);
            final ByteBuffer leaked = ByteBuffer.allocateDirect(Integer.getInteger("leak", 0));
            for (int at = 0; at < leaked.capacity(); at += 4_096) {
                leaked.put(at, (byte) 1);
            }
            Thread.sleep(linger / 2);
            Reference.reachabilityFence(leaked);
        }
    }

    /** Memtables and a cache so small that stores flush, compact and miss. */
    public static final class Pressed implements RocksDBConfigSetter {
        static {
            RocksDB.loadLibrary();
        }

        private static final LRUCache CACHE = new LRUCache(32 << 10);

        @Override
        public void setConfig(
                final String store, final Options options, final Map<String, Object> told) {
            options.setWriteBufferSize(64 << 10);
            options.setLevel0SlowdownWritesTrigger(5);
            final BlockBasedTableConfig tables =
                (BlockBasedTableConfig) options.tableFormatConfig();
            tables.setBlockCache(CACHE);
            tables.setCacheIndexAndFilterBlocks(true);
            options.setTableFormatConfig(tables);
        }

        @Override
        public void close(final String store, final Options options) {
            // the cache is one for all
        }
    }

    private static Topology topology(final CountDownLatch left, final String id) {
        final StreamsBuilder builder = new StreamsBuilder();
        final Serde<String> text = Serdes.String();
        final KStream<String, String> actions = stream(builder, id + "-actions", left);
        final KStream<String, String> replies = stream(builder, id + "-replies", left);
        final KGroupedStream<String, String> users = actions.groupByKey(Grouped.with(text, text));
        users.count(Materialized.as("counts"));
        users.windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, HOUR))
            .count(Materialized.as("minutes"));
        users.windowedBy(SessionWindows.ofInactivityGapAndGrace(MINUTE, HOUR))
            .count(Materialized.as("sessions"));
        users.windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, Duration.ZERO))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.as("closed"));
        actions.leftJoin(
            replies,
            (action, reply) -> action + reply,
            JoinWindows.ofTimeDifferenceAndGrace(MINUTE, HOUR),
            StreamJoined.with(text, text, text).withName("joined").withStoreName("joined"));
        final KTable<String, String> latest = actions.toTable(
            Materialized.<String, String>as(
                Stores.persistentVersionedKeyValueStore("versions", Duration.ofDays(1)))
                .withKeySerde(text).withValueSerde(text));
        final KTable<String, String> answers = replies.toTable(
            Materialized.<String, String>as(Stores.persistentKeyValueStore("answers"))
                .withKeySerde(text).withValueSerde(text));
        latest.join(
            answers,
            action -> action,
            (action, reply) -> action + reply,
            TableJoined.as("answered"),
            Materialized.as("answered"));
        return builder.build();
    }

    private static KStream<String, String> stream(
            final StreamsBuilder builder, final String topic, final CountDownLatch left) {
        return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
            .peek((key, value) -> left.countDown());
    }
}
