"""An open store that says what its writer needs in memory: its options, files and log together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.log.loggedstore import LoggedStore
from kstoolkit.rocksdb.memory.measured import memory_parts
from kstoolkit.rocksdb.memory.process import process_memory
from kstoolkit.rocksdb.memory.storedplan import plan_for
from kstoolkit.rocksdb.memory.toldcache import told_cache

if TYPE_CHECKING:
    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.memory.toldcache import ToldCache
    from kstoolkit.rocksdb.profiles.profile import Profile


class MeasuredStore(LoggedStore, ABC):
    """A store whose memory is known; :class:`~kstoolkit.rocksdb.store.Store` is one."""

    @abstractmethod
    def profile(self, cf: str = "default") -> Profile | None:
        """Return what a column family was last opened with; None if no OPTIONS file tells it."""

    @abstractmethod
    def ssts(self, cf: str | None = None) -> Records[Sst]:
        """Return the SST files, of all column families or one."""

    def memory(
        self,
        *,
        profile: Profile | str | None = None,
        pid: int | None = None,
        instances: int = 1,
        iterators: int | None = None,
    ) -> MemoryParts:
        """Return what the store's writer needs and takes, and what the store takes here.

        Parameters
        ----------
        profile
            What the writer opens it with, or the name of that; None: what its OPTIONS file tells,
            and for the block cache its log.
        pid
            The writer's process, on this machine; None: it is not measured.
        instances, iterators
            How many stores like this one the writer has open, and how many iterators in each.

        Raises
        ------
        ConfigurationError
            If a number makes no sense.
        InputError
            If there is no such process, or no such profile.
        """
        writer = None if pid is None else process_memory(pid)
        handles = self._families.chosen()
        plan = plan_for(
            self.profile() if profile is None else profile,
            self.ssts(),
            cache=self._told_cache,
            column_families=len(handles),
            instances=instances,
            iterators=iterators,
        )
        with translated(self.path):
            return memory_parts(str(self.path), list(handles.values()), plan=plan, writer=writer)

    @cached_property
    def _told_cache(self) -> ToldCache | None:
        with suppress(InputError):
            return told_cache(self.log().options())
        return None
