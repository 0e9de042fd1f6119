"""Which of some topics is the changelog of a Kafka Streams store.

::

    <application.id>-<store>-changelog
    <application.id>-<topology>-<store>-changelog       of a named topology

(``ProcessorStateManager.storeChangelogTopic`` of ``org.apache.kafka.streams``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def changelog_of(
    topics: Iterable[str], store: str, *, application: str | None, topology: str | None = None
) -> str | None:
    """Return the topic that is a store's changelog; None if none of them is.

    Parameters
    ----------
    topics
        Those that a checkpoint names.
    store
        The store's name.
    application, topology
        Whose it is, as far as its place tells. In a folder that was renamed no topic begins with
        the folder's name: then the shortest that ends like the store's changelog is it.

    Examples
    --------
    >>> topics = ["shop-user-counts-changelog", "shop-orders-changelog"]
    >>> changelog_of(topics, "orders", application="shop")
    'shop-orders-changelog'
    >>> changelog_of(topics, "counts", application="shop") is None
    True
    >>> changelog_of(topics, "orders", application="copy-of-shop")
    'shop-orders-changelog'
    """
    named = set(topics)
    ending = f"-{store}-changelog" if topology is None else f"-{topology}-{store}-changelog"
    if application is not None and any(each.startswith(f"{application}-") for each in named):
        mine = f"{application}{ending}"
        return mine if mine in named else None
    return min((each for each in named if each.endswith(ending)), key=len, default=None)
