import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** Keeps each record in the stores of the Processor API. */
final class Keeper implements Processor<String, String, Void, Void> {
    private static final Duration HOUR = Duration.ofHours(1);

    private ProcessorContext<Void, Void> context;
    private int number;

    static List<StoreBuilder<?>> stores(final Kept kept) {
        final Serde<String> string = Serdes.String();
        final Serde<Long> number = Serdes.Long();
        return List.of(
            plain(kept, "kv-plain", "String to Long", string, number),
            plain(kept, "kv-nolog", "without changelog, String to Long", string, number)
                .withLoggingDisabled(),
            plain(kept, "kv-int-json", "Integer to JSON", Serdes.Integer(), string),
            plain(kept, "kv-uuid", "UUID to Integer", Serdes.UUID(), Serdes.Integer()),
            plain(kept, "kv-short-double", "Short to Double", Serdes.Short(), Serdes.Double()),
            plain(kept, "kv-bytes", "bytes to bytes", Serdes.ByteArray(), Serdes.ByteArray()),
            Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(
                kept.say("kv-mem", "in memory, String to Long")), string, number),
            Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore(
                kept.say("kv-ts", "timestamped key-value, String to Long")), string, number),
            Stores.windowStoreBuilder(Stores.persistentWindowStore(
                kept.say("win-plain", "plain window 300 s, String to Long"),
                HOUR, Duration.ofMinutes(5), false), string, number),
            Stores.windowStoreBuilder(Stores.persistentWindowStore(
                kept.say("win-dups", "plain window 60 s, duplicates retained, String to String"),
                HOUR, Duration.ofMinutes(1), true), string, string),
            Stores.sessionStoreBuilder(Stores.persistentSessionStore(
                kept.say("sess-plain", "session, String to Long"), HOUR), string, number));
    }

    private static <K, V> StoreBuilder<KeyValueStore<K, V>> plain(
            final Kept kept, final String name, final String serdes,
            final Serde<K> keys, final Serde<V> values) {
        kept.say(name, "plain key-value, " + serdes);
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), keys, values);
    }

    @Override
    public void init(final ProcessorContext<Void, Void> given) {
        context = given;
    }

    @Override
    public void process(final Record<String, String> record) {
        number++;
        keyValues(record.key(), record.timestamp());
        windows(record.key(), record.value(), record.timestamp());
    }

    private void keyValues(final String user, final long at) {
        put("kv-plain", user, (long) number);
        put("kv-nolog", user, (long) number);
        put("kv-mem", user, (long) number);
        put("kv-plain", "gone", number % 2 == 0 ? null : 1L);
        put("kv-ts", user, ValueAndTimestamp.make((long) -number, at));
        put("kv-int-json", number % 23 - 5, "{\"n\":" + number + ",\"s\":\"é世\"}");
        put("kv-uuid", UUID.nameUUIDFromBytes(new byte[] {(byte) (number % 31)}), 20 - number);
        put("kv-short-double", (short) (number % 7 - 2), number / 3.0);
        put("kv-bytes", new byte[] {(byte) (number % 29 * 37), 0, '|', (byte) 0xfe},
            new byte[] {(byte) 0xff, 0, (byte) 0x80, (byte) number});
        put("kv-bytes", new byte[0], new byte[] {0, (byte) 0xff});
    }

    private void windows(final String user, final String action, final long at) {
        final WindowStore<String, Long> counts = context.getStateStore("win-plain");
        final long start = at - at % 300_000;
        final Long before = counts.fetch(user, start);
        counts.put(user, before == null ? 1L : before + 1, start);
        final WindowStore<String, String> actions = context.getStateStore("win-dups");
        actions.put(user, action, at);
        final SessionStore<String, Long> sessions = context.getStateStore("sess-plain");
        sessions.put(new Windowed<>(user, new SessionWindow(at - 4_000, at)), (long) number);
    }

    private <K, V> void put(final String store, final K key, final V value) {
        final KeyValueStore<K, V> found = context.getStateStore(store);
        found.put(key, value);
    }
}
