import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * One of an application's instances, until it is killed: bootstrap, state directory, application,
 * and settings as name=value. Two sub-topologies, each with a store of its own.
 */
public final class SharedApplication {
    private SharedApplication() {}

    public static void main(final String[] arguments) throws InterruptedException {
        final Properties told = new Properties();
        told.put("bootstrap.servers", arguments[0]);
        told.put("state.dir", arguments[1]);
        told.put("application.id", arguments[2]);
        told.put("default.key.serde", Serdes.StringSerde.class.getName());
        told.put("default.value.serde", Serdes.StringSerde.class.getName());
        told.put("auto.offset.reset", "earliest");
        told.put("commit.interval.ms", "500");
        for (int each = 3; each < arguments.length; each++) {
            final String[] parts = arguments[each].split("=", 2);
            told.put(parts[0], parts[1]);
        }
        final StreamsBuilder builder = new StreamsBuilder();
        for (final String name : new String[] {"big", "small"}) {
            builder.<String, String>stream(arguments[2] + "-" + name)
                .groupByKey()
                .reduce((old, latest) -> latest, Materialized.as(name));
        }
        try (KafkaStreams streams = new KafkaStreams(builder.build(), told)) {
            streams.start();
            new CountDownLatch(1).await();
        }
    }
}
