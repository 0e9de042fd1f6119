import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;

/** How windows were written before 3.0; what came with 3.1 to 3.6 is not there. */
final class Release {
    static final boolean HAS_VERSIONS = false;

    private Release() { }

    static TimeWindows tumbling(final Duration size, final Duration grace) {
        return TimeWindows.of(size).grace(grace);
    }

    static SlidingWindows sliding(final Duration difference, final Duration grace) {
        return SlidingWindows.withTimeDifferenceAndGrace(difference, grace);
    }

    static SessionWindows sessions(final Duration gap, final Duration grace) {
        return SessionWindows.with(gap).grace(grace);
    }

    static JoinWindows within(final Duration difference, final Duration grace) {
        return JoinWindows.of(difference).grace(grace);
    }

    static void addNewer(final StreamsBuilder builder, final KStream<String, String> events,
                         final Kept kept) { }

    static List<Map<String, Object>> versions(final StateStore store) {
        return List.of();
    }
}
