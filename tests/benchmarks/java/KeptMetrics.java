import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** Flink's own metrics of how far each partition is read, and of what came too late. */
public final class KeptMetrics implements MetricReporter {
    private static final Map<String, Gauge<?>> OFFSETS = new ConcurrentHashMap<>();
    private static final Map<String, Long> REACHED = new ConcurrentHashMap<>();
    private static final Map<String, Counter> DROPPED = new ConcurrentHashMap<>();

    /** Makes it, as Flink asks for. */
    public static final class Factory implements MetricReporterFactory {
        @Override
        public MetricReporter createMetricReporter(final Properties told) {
            return new KeptMetrics();
        }
    }

    static long events() {
        OFFSETS.forEach((partition, gauge) -> {
            final long offset = ((Number) gauge.getValue()).longValue();
            REACHED.merge(partition, offset + 1, Math::max);
        });
        return REACHED.values().stream().mapToLong(Long::longValue).sum();
    }

    static long dropped() {
        return DROPPED.values().stream().mapToLong(Counter::getCount).sum();
    }

    @Override
    public void open(final MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(
            final Metric metric, final String name, final MetricGroup group) {
        if (name.equals("currentOffset")) {
            OFFSETS.put(group.getAllVariables().get("<partition>"), (Gauge<?>) metric);
        } else if (name.equals("numLateRecordsDropped") && metric instanceof Counter) {
            DROPPED.put(group.getMetricIdentifier(name), (Counter) metric);
        }
    }

    @Override
    public void notifyOfRemovedMetric(
            final Metric metric, final String name, final MetricGroup group) {
        events(); // what it says at last
    }
}
