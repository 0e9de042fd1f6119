import java.time.Instant;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/** Records on their way into an application. */
final class Input {
    private final TopologyTestDriver driver;

    Input(final TopologyTestDriver driver) {
        this.driver = driver;
    }

    void pipe(final String topic, final String key, final String value, final long at,
              final Header... headers) {
        pipe(topic, Serdes.String(), key, Serdes.String(), value, at, headers);
    }

    <K, V> void pipe(final String topic, final Serde<K> keys, final K key, final Serde<V> values,
                     final V value, final long at, final Header... headers) {
        driver.createInputTopic(topic, keys.serializer(), values.serializer()).pipeInput(
            new TestRecord<>(key, value, new RecordHeaders(headers), Instant.ofEpochMilli(at)));
    }
}
