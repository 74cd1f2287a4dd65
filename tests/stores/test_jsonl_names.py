"""No two ids share a file, on any file system."""

import re
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnstream.events.errors import InvalidSessionId
from turnstream.stores import JSONLStore
from turnstream.stores.jsonl.names import LONGEST, file_name, session_of
from turnstream.stores.specimens import ALIKE, NO_IDS, append_of, texts

IDS = st.text(min_size=1, max_size=512).filter(str.isprintable)
CLOSE = st.text("aAäÄ=4.1/_-e", min_size=1, max_size=130)


@given(IDS | CLOSE, IDS | CLOSE)
@example("x" * 500, "x" * 501)
@example("A", "=41")
@example("x" * 121, file_name("x" * 121).removesuffix(".jsonl"))
def test_two_ids_have_two_names_whatever_the_file_system_makes_of_case_and_accents(
    one: str, other: str
) -> None:
    names = [file_name(each) for each in (one, other)]
    seen = {unicodedata.normalize("NFC", each.casefold().rstrip(". ")) for each in names}
    assert (len(seen) == 1) is (one == other)


@given(IDS | CLOSE | st.sampled_from(ALIKE))
@example("nul")
@example("COM1")
@example("lpt0")
def test_a_name_is_plain_short_and_in_its_directory(session_id: str) -> None:
    name = file_name(session_id)
    assert re.fullmatch(r"[a-z0-9_=-]+\.jsonl", name)
    assert len(name) <= LONGEST + len(".jsonl")
    assert name.partition(".")[0] not in {"con", "nul", "aux", "prn", "com1", "lpt0"}
    assert session_of(name) in (session_id, None)
    assert "==" in name or session_of(name) == session_id


@pytest.mark.parametrize("session_id", NO_IDS)
def test_what_is_no_id_has_no_name(session_id: str) -> None:
    with pytest.raises(InvalidSessionId):
        file_name(session_id)


@pytest.mark.parametrize("name", ["", "A.jsonl", "=4.jsonl", "=ff.jsonl", "x.json", "=6e.jsonl"])
def test_a_name_that_is_not_ours_stands_for_no_session(name: str) -> None:
    assert session_of(name) is None


def test_every_session_is_a_file_of_its_own_below_the_store(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store:
        for sid in ALIKE:
            store.append(append_of(sid, 0, sid))
        found = {path.name for path in (place / "sessions").iterdir()}
        assert found == {file_name(sid) for sid in ALIKE} and len(found) == len(ALIKE)
        assert [path.name for path in tmp_path.iterdir()] == ["streams"]
    (place / "log.jsonl").unlink()
    with closing(JSONLStore(place)) as store:
        assert [texts(store.read(sid)) for sid in ALIKE] == [[sid] for sid in ALIKE]
