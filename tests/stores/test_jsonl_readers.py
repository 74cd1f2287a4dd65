"""Readers while others erase, delete and compact: whole streams, before or after."""

from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.stores import JSONLStore
from turnstream.stores.specimens import PATIENCE, append_of, texts


@pytest.mark.timeout(120)
def test_readers_never_see_half_of_what_is_written_anew(tmp_path: Path) -> None:
    place, over, failures = tmp_path / "streams", Event(), SimpleQueue[object]()
    first = ["secret", "b"]

    def read(store: JSONLStore) -> None:
        try:
            while not over.is_set():
                for n in range(40):
                    found = texts(store.read(f"s{n}"))
                    assert found in ([], first, ["erased", "b", "c"])
                    folded = [each for page in store.replay(f"s{n}") for each in page.payloads]
                    assert folded in ([], [b"secret", b"b"], [b"erased", b"b", b"c"])
                log = store.read_all()
                assert [r.position for r in log] == sorted({r.position for r in log})
        except BaseException as failure:
            failures.put(failure)

    with closing(JSONLStore(place, sync=False)) as store, closing(JSONLStore(place)) as other:
        readers = [Thread(target=read, args=(each,)) for each in (store, other)]
        for reader in readers:
            reader.start()
        for n in range(40):
            store.append(append_of(f"s{n}", 0, *first))
            store.erase(append_of(f"s{n}", 2, "c"), {1: EncodedEvent("noted", b"erased")})
            if n % 3 == 0:
                store.delete(f"s{n}")
            if n % 10 == 0:
                store.compact()
        over.set()
        for reader in readers:
            reader.join(PATIENCE)
        assert failures.empty(), failures.get()
        assert len(other.sessions()) == 26
