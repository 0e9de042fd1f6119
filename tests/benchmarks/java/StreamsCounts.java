import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.IntStream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * Kafka Streams' own three windowed counts of a topic that is keyed as they are, up to its end:
 * bootstrap, topic, application, state directory, bytes of cache, milliseconds between commits.
 *
 * <p>Stores, caches and changelogs are as they are by default, but that changelogs keep events of
 * long ago, and that a member that was killed is known again at once.
 */
public final class StreamsCounts {
    private static final Duration GRACE = Duration.ofMinutes(10);
    private static final Map<String, Duration> WINDOWS = Map.of(
        "minute", Duration.ofMinutes(1), "hour", Duration.ofHours(1), "day", Duration.ofDays(1));
    private static final long TEN_YEARS_MS = Duration.ofDays(3_650).toMillis();
    private static final long LOOK_MS = 250;

    private StreamsCounts() {}

    public static void main(final String[] arguments) throws Exception {
        final long[] ends = Ends.of(arguments[0], arguments[1]);
        final AtomicLongArray reached = new AtomicLongArray(ends.length);
        final Topology topology = topology(arguments[1], reached);
        final KafkaStreams streams = new KafkaStreams(topology, told(arguments));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        Marks.mark("begun", Map.of());
        follow(ends, reached);
        final Map<String, Long> noted = Map.of("dropped", dropped(streams));
        streams.close();
        Marks.counted(IntStream.range(0, ends.length).mapToLong(reached::get).sum());
        Marks.mark("noted", noted);
    }

    private static void follow(final long[] ends, final AtomicLongArray reached)
            throws InterruptedException {
        long last = 0;
        boolean left = true;
        while (left) {
            Thread.sleep(LOOK_MS);
            long events = 0;
            left = false;
            for (int partition = 0; partition < ends.length; partition++) {
                events += reached.get(partition);
                left |= reached.get(partition) < ends[partition];
            }
            if (events > last) {
                last = events;
                Marks.counted(events);
            }
        }
    }

    private static long dropped(final KafkaStreams streams) {
        return streams.metrics().entrySet().stream()
            .filter(each -> each.getKey().name().equals("dropped-records-total"))
            .mapToLong(each -> ((Number) each.getValue().metricValue()).longValue())
            .sum();
    }

    private static Properties told(final String[] arguments) {
        final Properties told = new Properties();
        told.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        told.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        told.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        told.put("statestore.cache.max.bytes", arguments[4]);
        told.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[5]);
        told.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        told.put("auto.offset.reset", "earliest");
        told.put("producer.linger.ms", "100");
        told.put("producer.compression.type", "lz4");
        told.put("windowstore.changelog.additional.retention.ms", TEN_YEARS_MS);
        told.put("group.instance.id", arguments[2]);
        return told;
    }

    private static Topology topology(final String topic, final AtomicLongArray reached) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KGroupedStream<String, byte[]> events = builder
            .stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .processValues(() -> new Reaching(reached))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()));
        WINDOWS.forEach((name, size) ->
            events.windowedBy(TimeWindows.ofSizeAndGrace(size, GRACE))
                .count(Materialized.as(name)));
        return builder.build();
    }

    /** Notes how far each partition is read, which goes on where it was after a restart. */
    private static final class Reaching
            extends ContextualFixedKeyProcessor<String, byte[], byte[]> {
        private final AtomicLongArray reached;

        Reaching(final AtomicLongArray reached) {
            this.reached = reached;
        }

        @Override
        public void process(final FixedKeyRecord<String, byte[]> record) {
            context().forward(record);
            final RecordMetadata at = context().recordMetadata().orElseThrow();
            reached.lazySet(at.partition(), at.offset() + 1);
        }
    }
}
