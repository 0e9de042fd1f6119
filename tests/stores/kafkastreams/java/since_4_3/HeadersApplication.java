import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** A small application whose stores keep the headers of records. */
public final class HeadersApplication {
    private static final Serde<String> STRING = Serdes.String();
    private static final Duration HOUR = Duration.ofHours(1);

    private HeadersApplication() { }

    public static void main(final String[] arguments) throws Exception {
        final Kept kept = new Kept(Path.of(arguments[0]), arguments[1], "headers", "headers-clean");
        kept.set("dsl.store.format", "HEADERS");
        kept.run(HeadersApplication::topology, HeadersApplication::feed);
    }

    private static Topology topology(final Kept kept) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> events = builder.stream("events");
        final KGroupedStream<String, String> users = events.groupByKey();
        users.count(kept.<String, Long, KeyValueStore<Bytes, byte[]>>as(
            "h-count", "timestamped key-value with headers, String to Long"));
        users.windowedBy(Release.tumbling(Duration.ofMinutes(1), Duration.ofMinutes(5)))
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                    "h-1m", "timestamped window 60 s with headers, String to Long")
                .withRetention(HOUR));
        users.windowedBy(Release.sessions(Duration.ofSeconds(30), Duration.ofMinutes(20)))
            .count(kept.<String, Long, SessionStore<Bytes, byte[]>>as(
                "h-dsl-sess", "session with headers, String to Long"));
        Release.emitWindows(users, kept);
        events.leftJoin(builder.<String, String>stream("impressions"), (one, other) -> one + other,
            Release.within(Duration.ofMinutes(1), Duration.ofSeconds(30)),
            StreamJoined.with(STRING, STRING, STRING).withName("h-join").withStoreName("h-join"));
        return builder.build()
            .addSource("keeping", STRING.deserializer(), STRING.deserializer(), "kept")
            .addProcessor("keeper", HeadersKeeper::new, "keeping")
            .addStateStore(Stores.timestampedKeyValueStoreWithHeadersBuilder(
                Stores.persistentTimestampedKeyValueStoreWithHeaders(
                    kept.say("h-kv", "timestamped key-value with headers, String to String")),
                STRING, STRING), "keeper")
            .addStateStore(Stores.timestampedWindowStoreWithHeadersBuilder(
                Stores.persistentTimestampedWindowStoreWithHeaders(
                    kept.say("h-win", "timestamped window 60 s with headers, String to String"),
                    HOUR, Duration.ofMinutes(1), false),
                STRING, STRING), "keeper")
            .addStateStore(Stores.sessionStoreWithHeadersBuilder(
                Stores.persistentSessionStoreWithHeaders(
                    kept.say("h-sess", "session with headers, String to Long"), HOUR),
                STRING, Serdes.Long()), "keeper");
    }

    private static void feed(final TopologyTestDriver driver) {
        final Input input = new Input(driver);
        for (int number = 0; number < 120; number++) {
            final Header[] headers = headers(number);
            final String user = Application.user(number);
            final long at = Application.time(number);
            input.pipe("events", user, "click" + number, at, headers);
            input.pipe("kept", user, "click" + number, at, headers);
            if (number % 4 == 1) {
                input.pipe("impressions", user, "seen" + number, at + 3_000, headers);
            }
        }
        for (final String user : Application.USERS) {
            for (final String action : List.of("buy|now", "like")) {
                input.pipe("events", user, action, Application.time(120), headers(user.length()));
            }
            if (!user.startsWith("u-")) {
                input.pipe("impressions", user, "seen|at last", Application.time(120) + 500);
            }
        }
    }

    /** None, one, a name that comes twice, or a name beyond ASCII and a value that is null. */
    private static Header[] headers(final int number) {
        final Header trace = new RecordHeader("trace", ("t" + number).getBytes());
        return switch (number % 4) {
            case 0 -> new Header[0];
            case 1 -> new Header[] {trace};
            case 2 -> new Header[] {trace, new RecordHeader("trace", "second".getBytes())};
            default -> new Header[] {
                trace,
                new RecordHeader("üser-agent", new byte[] {0, (byte) 0xfe, 3}),
                new RecordHeader("nul", (byte[]) null)};
        };
    }

    private static final class HeadersKeeper implements Processor<String, String, Void, Void> {
        private TimestampedKeyValueStoreWithHeaders<String, String> keyValues;
        private TimestampedWindowStoreWithHeaders<String, String> windows;
        private SessionStoreWithHeaders<String, Long> sessions;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            keyValues = context.getStateStore("h-kv");
            windows = context.getStateStore("h-win");
            sessions = context.getStateStore("h-sess");
        }

        @Override
        public void process(final Record<String, String> record) {
            final String user = record.key();
            final long at = record.timestamp();
            final var value = ValueTimestampHeaders.make(record.value(), at, record.headers());
            keyValues.put(user, value);
            windows.put(user, value, at - at % 60_000);
            sessions.put(new Windowed<>(user, new SessionWindow(at - 4_000, at)),
                AggregationWithHeaders.make(at % 1_000, record.headers()));
        }
    }
}
