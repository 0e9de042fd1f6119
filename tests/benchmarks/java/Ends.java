import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;

/** Where each partition of a topic ends. */
final class Ends {
    private Ends() {}

    static long[] of(final String bootstrap, final String topic)
            throws ExecutionException, InterruptedException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            final int partitions = admin.describeTopics(List.of(topic))
                .allTopicNames().get().get(topic).partitions().size();
            final Map<TopicPartition, OffsetSpec> asked = IntStream.range(0, partitions).boxed()
                .collect(Collectors.toMap(
                    each -> new TopicPartition(topic, each), each -> OffsetSpec.latest()));
            final long[] ends = new long[partitions];
            admin.listOffsets(asked).all().get()
                .forEach((each, found) -> ends[each.partition()] = found.offset());
            return ends;
        }
    }
}
