import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.rocksdb.*;

/** A store as Kafka Streams opens it (level ERROR, no WAL), to which something happens. */
public class Wounded {
    public static void main(final String[] arguments) throws Exception {
        final String how = arguments[0];
        final Path path = Paths.get(arguments[1]);
        RocksDB.loadLibrary();
        final DBOptions options = new DBOptions()
            .setCreateIfMissing(true)
            .setCreateMissingColumnFamilies(true)
            .setInfoLogLevel(InfoLogLevel.ERROR_LEVEL)
            .setIncreaseParallelism(2);
        final ColumnFamilyOptions ofFamily = new ColumnFamilyOptions()
            .setTableFormatConfig(new BlockBasedTableConfig().setFilterPolicy(new BloomFilter()))
            .setWriteBufferSize(16L << 20)
            .setCompressionType(CompressionType.NO_COMPRESSION)
            .setCompactionStyle(CompactionStyle.UNIVERSAL)
            .setMaxWriteBufferNumber(3);
        final List<ColumnFamilyDescriptor> families = List.of(
            new ColumnFamilyDescriptor("default".getBytes(), ofFamily),
            new ColumnFamilyDescriptor("keyValueWithTimestamp".getBytes(), ofFamily));
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        final RocksDB store = RocksDB.open(options, path.toString(), families, handles);
        final WriteOptions noWal = new WriteOptions().setDisableWAL(true);
        final FlushOptions waits = new FlushOptions().setWaitForFlush(true);
        final Random random = new Random(1);
        for (int round = 0; round < 8; round++) {
            try {
                for (int i = 0; i < 400; i++) {
                    final byte[] value = new byte[1000];
                    random.nextBytes(value);
                    store.put(handles.get(1), noWal, ("key" + (i * 7 + round)).getBytes(), value);
                }
                store.flush(waits, handles.get(1));
            } catch (final RocksDBException told) {
                System.out.println(told.getMessage());
                Thread.sleep(200);
            }
            if (round == 2) {
                happens(how, path, store);
            }
        }
        Thread.sleep(500);
        handles.forEach(ColumnFamilyHandle::close);
        store.close();
    }

    private static void happens(final String how, final Path path, final RocksDB store) throws Exception {
        if (how.equals("damaged")) {
            for (final LiveFileMetaData each : store.getLiveFilesMetaData()) {
                try (RandomAccessFile file = new RandomAccessFile(path + each.fileName(), "rw")) {
                    file.seek(20_000);
                    file.write(new byte[300]);
                }
            }
        }
        if (how.equals("removed")) {
            Files.createLink(Paths.get(path + ".LOG"), path.resolve("LOG"));
            try (var all = Files.list(path)) {
                for (final Path each : all.toList()) {
                    Files.delete(each);
                }
            }
            Files.delete(path);
        }
    }
}
