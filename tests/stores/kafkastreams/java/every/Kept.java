import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateStore;

/** A state directory that outlives its application, and beside it what was in the stores. */
final class Kept {
    final String release;
    final String application;
    final String state;
    final Map<String, String> kinds = new LinkedHashMap<>();
    final Path directory;
    private final Path folder;
    private final Properties configuration = new Properties();

    Kept(final Path folder, final String release, final String mode, final String state) {
        this.folder = folder;
        this.release = release;
        this.state = state;
        application = "small-" + mode + "-" + release.replace('.', '_');
        directory = folder.resolve(state).resolve(application);
        set(StreamsConfig.APPLICATION_ID_CONFIG, application);
        set(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        set(StreamsConfig.STATE_DIR_CONFIG, folder.resolve("links").toString());
        set(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        set(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        set("cache.max.bytes.buffering", "0");
        set("statestore.cache.max.bytes", "0");
    }

    void set(final String name, final String value) {
        configuration.setProperty(name, value);
    }

    /** Notes in words what a store is, and returns its name. */
    String say(final String store, final String kind) {
        kinds.put(store, kind);
        return store;
    }

    <K, V, S extends StateStore> Materialized<K, V, S> as(final String store, final String kind) {
        return Materialized.as(say(store, kind));
    }

    void run(final Function<Kept, Topology> topology, final Consumer<TopologyTestDriver> feed)
            throws IOException {
        final Topology built = topology.apply(this);
        link("0_0");
        if (!built.describe().globalStores().isEmpty()) {
            link("global");
        }
        try (TopologyTestDriver driver = new TopologyTestDriver(built, configuration)) {
            feed.accept(driver);
            final Path expected = Files.createDirectories(folder.resolve("expected"));
            Contents.write(this, driver, expected.resolve(state + ".json"));
            final Path described = expected.resolve(state + ".topology.txt");
            Files.writeString(described, built.describe().toString());
        }
    }

    // The driver deletes its state directory as it closes; of what is linked, the link alone goes.
    private void link(final String task) throws IOException {
        final Path links = Files.createDirectories(folder.resolve("links").resolve(application));
        final Path target = Files.createDirectories(directory.resolve(task));
        Files.createSymbolicLink(links.resolve(task), target.toAbsolutePath());
    }
}
