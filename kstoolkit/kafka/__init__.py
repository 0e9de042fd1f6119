"""Kafka: the jars that Java needs for it, and a real broker on this machine for those without one.

Nothing here is imported before it is used: :mod:`kstoolkit.kafka.broker` starts, stops and looks
at a broker, :mod:`kstoolkit.kafka.jars` fetches what is published in a Maven repository.
"""
