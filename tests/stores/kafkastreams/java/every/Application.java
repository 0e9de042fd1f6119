import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.state.*;

/** A small application that has every kind of store; run with its folder and its release. */
public final class Application {
    static final Serde<String> STRING = Serdes.String();
    static final long START = 1_700_000_000_000L;
    static final List<String> USERS = List.of(
        "", "a\0b", "alice", "user|17", "zoë", "名前", "u-1", "u-2", "u-3", "u-10", "u-11", "u-12");
    private static final int EVENTS = 120;

    private Application() { }

    public static void main(final String[] arguments) throws Exception {
        final Kept kept = new Kept(Path.of(arguments[0]), arguments[1], "main", "clean");
        kept.run(Application::topology, Application::feed);
    }

    static String user(final int number) {
        return USERS.get(number / 2 % USERS.size());
    }

    /** Events come in pairs of one user, 8 s apart; the pairs are a minute apart, over an hour. */
    static long time(final int number) {
        return START + number / 2 * 61_003L + number % 2 * 7_919L;
    }

    private static Topology topology(final Kept kept) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> events = builder.stream("events");
        count(events.groupByKey(Grouped.with(STRING, STRING)), kept);
        join(events, builder.stream("impressions"));
        tables(builder, kept);
        builder.stream("sensors", Consumed.with(Serdes.Integer(), Serdes.Double()))
            .groupByKey(Grouped.with(Serdes.Integer(), Serdes.Double()))
            .windowedBy(Release.tumbling(Duration.ofMinutes(15), Duration.ofMinutes(1)))
            .reduce(Math::max, kept.<Integer, Double, WindowStore<Bytes, byte[]>>as(
                    "sensor-max", "timestamped window, tumbling 900 s, Integer to Double")
                .withKeySerde(Serdes.Integer()).withValueSerde(Serdes.Double())
                .withRetention(Duration.ofHours(2)));
        Release.addNewer(builder, events, kept);
        final Topology topology = builder.build();
        topology.addSource("keeping", STRING.deserializer(), STRING.deserializer(), "kept");
        topology.addProcessor("keeper", Keeper::new, "keeping");
        Keeper.stores(kept).forEach(store -> topology.addStateStore(store, "keeper"));
        return topology;
    }

    private static void count(final KGroupedStream<String, String> users, final Kept kept) {
        users.count(kept.<String, Long, KeyValueStore<Bytes, byte[]>>as(
            "user-count", "timestamped key-value, String to Long"));
        kept.say("user-count-plain", "plain key-value behind the DSL's adapter, String to Long");
        users.count(Materialized.as(Stores.persistentKeyValueStore("user-count-plain")));
        users.windowedBy(Release.tumbling(Duration.ofMinutes(1), Duration.ofMinutes(5)))
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                    "actions-1m", "timestamped window, tumbling 60 s, String to Long")
                .withRetention(Duration.ofHours(1)));
        users.windowedBy(Release.tumbling(Duration.ofMinutes(5), Duration.ofMinutes(2))
                .advanceBy(Duration.ofMinutes(1)))
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                "actions-hop", "timestamped window, hopping 300 s by 60 s, String to Long")
                .withRetention(Duration.ofMinutes(7)));
        users.windowedBy(Release.sliding(Duration.ofMinutes(2), Duration.ofMinutes(10)))
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                "actions-slide", "timestamped window, sliding 120 s, String to Long"));
        users.windowedBy(Release.sessions(Duration.ofSeconds(30), Duration.ofMinutes(20)))
            .count(kept.<String, Long, SessionStore<Bytes, byte[]>>as(
                "user-sessions", "session, gap 30 s, String to Long"));
        users.windowedBy(Release.tumbling(Duration.ofMinutes(1), Duration.ofMinutes(9)))
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                "final-1m", "timestamped window, tumbling 60 s, before suppress, String to Long")
                .withRetention(Duration.ofMinutes(10)))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
    }

    static void join(final KStream<String, String> events, final KStream<String, String> others) {
        final JoinWindows within = Release.within(Duration.ofMinutes(1), Duration.ofSeconds(30));
        final StreamJoined<String, String, String> joined =
            StreamJoined.with(STRING, STRING, STRING);
        events.join(others, (one, other) -> one + other, within,
            joined.withName("click-imp").withStoreName("click-imp"));
        events.leftJoin(others, (one, other) -> one + other, within,
            joined.withName("click-imp-left").withStoreName("click-imp-left"));
    }

    private static void tables(final StreamsBuilder builder, final Kept kept) {
        final KTable<String, String> orders = builder.table("orders",
            kept.as("orders-table", "timestamped key-value, source table, String to String"));
        final KTable<String, String> customers = builder.table("customers",
            kept.as("customers-table", "timestamped key-value, source table, String to String"));
        orders.join(customers, order -> order.split(":")[0], (order, name) -> order + "/" + name,
            kept.<String, String, KeyValueStore<Bytes, byte[]>>as(
                    "orders-enriched", "timestamped key-value, foreign-key join, String to String")
                .withKeySerde(STRING).withValueSerde(STRING));
        builder.globalTable("config",
            kept.as("config-global", "timestamped key-value, global table, String to String"));
    }

    private static void feed(final TopologyTestDriver driver) {
        final Input input = new Input(driver);
        for (int number = 0; number < 6; number++) {
            input.pipe("customers", "c" + number, "Customer " + USERS.get(number), START);
            input.pipe("config", "setting" + number, "is " + number, START + number);
        }
        input.pipe("config", "setting2", null, START + 10);
        for (int number = 0; number < EVENTS; number++) {
            feed(input, number);
        }
        input.pipe("orders", "o3", null, time(EVENTS));
        // At last each user does two things within one millisecond: lists and duplicates of two.
        for (final String user : USERS) {
            for (final String action : List.of("buy|now", "like")) {
                input.pipe("events", user, action, time(EVENTS) + user.length());
                input.pipe("kept", user, action, time(EVENTS) + user.length());
            }
            if (!user.startsWith("u-")) {
                input.pipe("impressions", user, "seen|at last", time(EVENTS) + 500);
            }
        }
    }

    private static void feed(final Input input, final int number) {
        final String user = user(number);
        final long at = time(number);
        if (Release.HAS_VERSIONS && number % 3 == 0) {
            final String price = number == 72 ? null : "costs " + number;
            input.pipe("prices", USERS.get(number % 5), price, at - at % 20_000);
        }
        input.pipe("events", user, "click" + number, at);
        input.pipe("kept", user, "click" + number, at);
        if (number % 4 == 1) {
            input.pipe("impressions", user, "seen" + number, at + 3_000);
        }
        if (number % 5 == 0) {
            input.pipe("orders", "o" + number / 5, "c" + number % 7 + ":" + number, at);
        }
        input.pipe("sensors", Serdes.Integer(), number % 5 - 2,
            Serdes.Double(), number / 7.0 - 4, at);
    }
}
