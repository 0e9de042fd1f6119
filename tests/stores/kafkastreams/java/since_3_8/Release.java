import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.*;

/** How windows are written since 3.0, and the stores that came with 3.1 to 3.6. */
final class Release {
    static final boolean HAS_VERSIONS = true;

    private Release() { }

    static TimeWindows tumbling(final Duration size, final Duration grace) {
        return TimeWindows.ofSizeAndGrace(size, grace);
    }

    static SlidingWindows sliding(final Duration difference, final Duration grace) {
        return SlidingWindows.ofTimeDifferenceAndGrace(difference, grace);
    }

    static SessionWindows sessions(final Duration gap, final Duration grace) {
        return SessionWindows.ofInactivityGapAndGrace(gap, grace);
    }

    static JoinWindows within(final Duration difference, final Duration grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(difference, grace);
    }

    static void addNewer(final StreamsBuilder builder, final KStream<String, String> events,
                         final Kept kept) {
        emitOnClose(events.groupByKey(), kept);
        kept.say("price-history", "versioned key-value, history of 3600 s, String to String");
        final KTable<String, String> prices = builder.table("prices", Materialized.as(
            Stores.persistentVersionedKeyValueStore("price-history", Duration.ofHours(1))));
        events.join(prices, (action, price) -> action + price,
            Joined.<String, String, String>as("price-join")
                .withGracePeriod(Duration.ofMinutes(5)));
    }

    private static void emitOnClose(final KGroupedStream<String, String> users, final Kept kept) {
        emitWindows(users, kept);
        users.windowedBy(sliding(Duration.ofMinutes(1), Duration.ofMinutes(2)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                "emit-slide", "time-ordered sliding window with index, emit on window close"));
        users.windowedBy(sessions(Duration.ofSeconds(30), Duration.ofMinutes(10)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(kept.<String, Long, SessionStore<Bytes, byte[]>>as(
                "emit-sessions", "time-ordered session with index, emit on window close"));
    }

    static void emitWindows(final KGroupedStream<String, String> users, final Kept kept) {
        users.windowedBy(tumbling(Duration.ofMinutes(1), Duration.ofMinutes(2)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(kept.<String, Long, WindowStore<Bytes, byte[]>>as(
                "emit-1m", "time-ordered window 60 s without index, emit on window close"));
    }

    /** The versions that a versioned store shows when it is asked for every twentieth second. */
    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> versions(final StateStore store) {
        final List<Map<String, Object>> rows = new ArrayList<>();
        if (store instanceof VersionedKeyValueStore<?, ?>) {
            for (final String user : Application.USERS) {
                versions((VersionedKeyValueStore<String, String>) store, user, rows);
            }
        }
        return rows;
    }

    private static void versions(final VersionedKeyValueStore<String, String> store,
                                 final String user, final List<Map<String, Object>> rows) {
        long last = -1;
        for (long at = Application.START; at < Application.time(130); at += 20_000) {
            final VersionedRecord<String> found = store.get(user, at);
            if (found != null && found.timestamp() != last) {
                last = found.timestamp();
                final Map<String, Object> row = new LinkedHashMap<>();
                row.put("key", user);
                row.put("validFrom", last);
                row.put("validTo", found.validTo().orElse(null));
                row.put("value", found.value());
                row.put("key_hex", Contents.hex(user.getBytes(StandardCharsets.UTF_8)));
                row.put("value_hex", Contents.hex(found.value().getBytes(StandardCharsets.UTF_8)));
                rows.add(row);
            }
        }
    }
}
