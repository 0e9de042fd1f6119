"""Kafka: topics read and written, groups, the jars for Java, and a broker for whoever has none.

Nothing here is imported before it is used: :mod:`kstoolkit.kafka.broker` starts, stops and looks
at a broker, :mod:`kstoolkit.kafka.jars` fetches what is published in a Maven repository.
"""
