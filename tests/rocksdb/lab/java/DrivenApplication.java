import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.Options;

/**
 * Puts the records of a topic into the stores it is told of, until so many have come, and closes
 * them: bootstrap, state directory, topic (and id), number, stores. Its properties: buffer (bytes
 * of a memtable, and INFO in the logs), buffers, slowdown and stop (files on level 0), size.ms and
 * grace.ms of windows.
 */
public final class DrivenApplication {
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();
    private static final String PLAIN = "plain";
    private static final String TIMESTAMPED = "timestamped";
    private static final String WINDOWS = "windows";

    private DrivenApplication() {}

    /** Has stores flush often, and tell of it. */
    public static final class Setter implements RocksDBConfigSetter {
        @Override
        public void setConfig(
                final String store, final Options options, final Map<String, Object> configs) {
            options.setWriteBufferSize(Long.getLong("buffer"));
            options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL);
            options.setMaxWriteBufferNumber(
                Integer.getInteger("buffers", options.maxWriteBufferNumber()));
            options.setLevel0SlowdownWritesTrigger(
                Integer.getInteger("slowdown", options.level0SlowdownWritesTrigger()));
            options.setLevel0StopWritesTrigger(
                Integer.getInteger("stop", options.level0StopWritesTrigger()));
        }

        @Override
        public void close(final String store, final Options options) {}
    }

    public static void main(final String[] arguments) throws Exception {
        final Properties told = new Properties();
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        told.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        told.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        told.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        told.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), "5000");
        if (Long.getLong("buffer") != null) {
            told.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Setter.class.getName());
        }
        final CountDownLatch left = new CountDownLatch(Integer.parseInt(arguments[3]));
        final List<String> stores = Arrays.asList(arguments[4].split(","));
        try (KafkaStreams streams = new KafkaStreams(topology(arguments[2], stores, left), told)) {
            streams.start();
            if (!left.await(150, TimeUnit.SECONDS)) {
                throw new IllegalStateException(left.getCount() + " records are missing.");
            }
            streams.close(Duration.ofSeconds(60));
        }
    }

    private static Topology topology(
            final String topic, final List<String> stores, final CountDownLatch left) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<byte[], byte[]> came = builder.stream(topic, Consumed.with(BYTES, BYTES));
        if (stores.contains(WINDOWS)) {
            final Duration size = Duration.ofMillis(Long.getLong("size.ms", 60_000));
            final Duration grace = Duration.ofMillis(Long.getLong("grace.ms", 600_000));
            came.groupByKey(Grouped.with(BYTES, BYTES))
                .windowedBy(TimeWindows.ofSizeAndGrace(size, grace))
                .count(Materialized.as(WINDOWS));
        }
        if (stores.contains(PLAIN)) {
            builder.addStateStore(
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(PLAIN), BYTES, BYTES));
            came.process(Plain::new, PLAIN);
        }
        if (stores.contains(TIMESTAMPED)) {
            builder.addStateStore(Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore(TIMESTAMPED), BYTES, BYTES));
            came.process(Timestamped::new, TIMESTAMPED);
        }
        came.foreach((key, value) -> left.countDown());
        return builder.build();
    }

    private static final class Plain implements Processor<byte[], byte[], Void, Void> {
        private KeyValueStore<byte[], byte[]> store;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            store = context.getStateStore(PLAIN);
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            store.put(record.key(), record.value().length == 0 ? null : record.value());
        }
    }

    private static final class Timestamped implements Processor<byte[], byte[], Void, Void> {
        private TimestampedKeyValueStore<byte[], byte[]> store;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            store = context.getStateStore(TIMESTAMPED);
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            store.put(record.key(), ValueAndTimestamp.make(record.value(), record.timestamp()));
        }
    }
}
