import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Flink SQL's cascade of tumbling windows over a topic up to its end, on RocksDB with checkpoints:
 * bootstrap, topic, folder for state and checkpoints.
 *
 * <p>Watermarks are made per partition, in which events are in order. What comes out is added up in
 * state that is part of the checkpoints, so that it is exact also after a kill. A start in a folder
 * that has a checkpoint goes on from it. At the topic's end the job is drained: a source that knows
 * its end would never come to it once it goes on from a checkpoint (FLINK-31006).
 */
public final class FlinkCounts {
    private static final int CORES = 2;
    private static final long LOOK_MS = 250;
    private static final Map<String, Long> TOTALS = new TreeMap<>();
    private static final String EVENTS = """
        CREATE TABLE events (
          `user` STRING,
          action STRING,
          rowtime TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
          WATERMARK FOR rowtime AS rowtime - INTERVAL '10' MINUTE
        ) WITH (
          'connector' = 'kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s',
          'scan.startup.mode' = 'earliest-offset',
          'format' = 'json')""";
    private static final String WINDOW = """
        CREATE TEMPORARY VIEW %s AS
        SELECT window_time AS rowtime, `user`, action, %s AS n
        FROM TABLE(TUMBLE(TABLE %s, DESCRIPTOR(rowtime), INTERVAL '1' %s))
        GROUP BY window_start, window_end, window_time, `user`, action""";
    private static final String ALL = """
        SELECT 'minute' AS size, n FROM minutes UNION ALL
        SELECT 'hour', n FROM hours UNION ALL
        SELECT 'day', n FROM days""";

    private FlinkCounts() {}

    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[2]);
        final StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(CORES, told(folder));
        final StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.executeSql(EVENTS.formatted(arguments[1], arguments[0]));
        tables.executeSql(WINDOW.formatted("minutes", "COUNT(*)", "events", "MINUTE"));
        tables.executeSql(WINDOW.formatted("hours", "SUM(n)", "minutes", "HOUR"));
        tables.executeSql(WINDOW.formatted("days", "SUM(n)", "hours", "DAY"));
        tables.toDataStream(tables.sqlQuery(ALL)).process(new Adding()).sinkTo(new DiscardingSink<>());
        final long end = LongStream.of(Ends.of(arguments[0], arguments[1])).sum();
        final JobClient job = environment.executeAsync("counts");
        Marks.mark("begun", Map.of());
        follow(end, job.getJobExecutionResult());
        final String last = folder.resolve("savepoint").toUri().toString();
        job.stopWithSavepoint(true, last, SavepointFormatType.CANONICAL).get();
        job.getJobExecutionResult().get();
        Marks.counted(KeptMetrics.events());
        TOTALS.put("dropped", KeptMetrics.dropped());
        Marks.mark("noted", TOTALS);
        System.exit(0);
    }

    private static void follow(final long end, final CompletableFuture<JobExecutionResult> result)
            throws Exception {
        long last = 0;
        while (last < end) {
            Thread.sleep(LOOK_MS);
            if (result.isDone()) {
                result.get(); // it fails: a job goes on until it is stopped
            }
            final long events = KeptMetrics.events();
            if (events > last) {
                last = events;
                Marks.counted(events);
            }
        }
    }

    private static Configuration told(final Path folder) throws Exception {
        final Configuration told = new Configuration();
        told.setString("table.local-time-zone", "UTC");
        told.setString("pipeline.object-reuse", "true");
        told.setString("state.backend.type", "rocksdb");
        told.setString("state.backend.rocksdb.localdir", folder.resolve("rocksdb").toString());
        told.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString());
        told.setString("execution.checkpointing.incremental", "true");
        told.setString("execution.checkpointing.interval", "10 s");
        told.setString(
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        told.setString("taskmanager.memory.managed.size", "512m");
        told.setString("metrics.reporters", "kept");
        told.setString("metrics.reporter.kept.factory.class", KeptMetrics.Factory.class.getName());
        final Path last = lastCheckpoint(folder.resolve("checkpoints"));
        if (last != null) {
            told.setString("execution.state-recovery.path", last.toUri().toString());
        }
        return told;
    }

    private static Path lastCheckpoint(final Path folder) throws Exception {
        if (!Files.isDirectory(folder)) {
            return null;
        }
        try (Stream<Path> all = Files.walk(folder)) {
            final List<Path> whole =
                all.filter(each -> each.endsWith("_metadata")).map(Path::getParent).toList();
            Path last = null;
            for (final Path each : whole) {
                if (last == null || Files.getLastModifiedTime(each.resolve("_metadata"))
                        .compareTo(Files.getLastModifiedTime(last.resolve("_metadata"))) > 0) {
                    last = each;
                }
            }
            return last;
        }
    }

    /** Adds up how many counters came, and what they come to, by window. */
    private static final class Adding extends ProcessFunction<Row, Row>
            implements CheckpointedFunction {
        private final Map<String, Long> totals = new TreeMap<>();
        private transient ListState<Map<String, Long>> kept;

        @Override
        public void processElement(
                final Row row, final Context context, final Collector<Row> out) {
            final String size = row.getFieldAs(0);
            totals.merge(size + " counters", 1L, Long::sum);
            totals.merge(size + " events", row.<Long>getFieldAs(1), Long::sum);
        }

        @Override
        public void snapshotState(final FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(new TreeMap<>(totals)));
        }

        @Override
        @SuppressWarnings("unchecked")
        public void initializeState(final FunctionInitializationContext context) throws Exception {
            kept = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("totals", (Class<Map<String, Long>>) (Class<?>) Map.class));
            for (final Map<String, Long> each : kept.get()) {
                each.forEach((name, value) -> totals.merge(name, value, Long::sum));
            }
        }

        @Override
        public void close() {
            synchronized (TOTALS) {
                totals.forEach((name, value) -> TOTALS.merge(name, value, Long::sum));
            }
        }
    }
}
