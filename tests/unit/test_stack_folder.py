"""The data folder of a local stack: what is deleted with it, and what is told where it cannot be used."""

from __future__ import annotations

import pytest

from waterclock.stack.down import purge
from waterclock.stack.trouble import StackTrouble


@pytest.mark.parametrize("name", ["kafka", "state.json"])
def test_purge_spares_a_folder_that_only_has_a_name_in_common_with_ours(tmp_path, name):
    (tmp_path / name).mkdir()  # as a home in which somebody has unpacked Kafka
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(StackTrouble, match=r"holds thesis\.txt\): nothing deleted"):
        purge(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_purge_deletes_what_a_start_has_left_that_did_not_come_far(tmp_path):
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True)
    (data / "lock").touch()
    assert purge(data)
    assert not data.exists()


def test_purge_of_a_file_is_told_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StackTrouble, match="no folder"):
        purge(tmp_path / "file")
