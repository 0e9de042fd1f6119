"""confluent-kafka, loaded where it is asked for; what it says of a failure, as errors of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, EnvironmentFault, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable


ANSWER_SECONDS = 10.0
"""How long an answer may take."""


def clients() -> Any:
    """Return confluent-kafka, with its parts.

    Raises
    ------
    EnvironmentFault
        If it is not installed.
    """
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra: missing only where it is asked for
        import confluent_kafka.admin  # noqa: PLC0415
    except ImportError as error:
        message = "The package confluent-kafka is missing."
        raise EnvironmentFault(message, hint="Run: pip install 'kstoolkit[kafka]'") from error
    return confluent_kafka


def made(kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    """Return a client with such settings.

    Raises
    ------
    ConfigurationError
        If librdkafka takes no such settings.
    """
    try:
        return kind(settings)
    except clients().KafkaException as error:
        if error.args[0].code() != clients().KafkaError._INVALID_ARG:  # noqa: SLF001 - its name
            raise
        message = f"The connection to Kafka can't be set so: {error.args[0].str()}"
        hint = "What Java's client alone knows begins with java., as java.default.api.timeout.ms."
        raise ConfigurationError(message, hint=hint) from error


def said(error: Any) -> KafkaError:
    """Return what librdkafka said, as an error of ours."""
    is_silent = is_silence(error)
    hint = "Is the broker up, and the address right?" if is_silent else "So the broker says itself."
    return KafkaError(str(error.args[0].str()), hint=hint)


def is_silence(error: Any) -> bool:
    """Return whether it was nobody's answer: of a broker that is down, far off, or not there."""
    codes = clients().KafkaError
    silent = {codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE}  # noqa: SLF001 - their names
    return error.args[0].code() in silent
