"""What Kafka Streams keeps in RocksDB, from its bytes: keys, values, and the files beside them."""
