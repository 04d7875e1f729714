"""A fit that was killed and goes on from its checkpoint is the fit that was not."""

import pytest

import resumable
from masgrad.checkpoints import file
from masgrad.checkpoints.saver import Saver
from resumable import FITS, told


class Killed(BaseException):
    """Stands for a kill right after a save."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("fits")
    resumable.write(where)
    return where


@pytest.fixture
def killed(monkeypatch):
    """Make a fit die after its save of this number; its list counts the saves."""
    save, seen = Saver.save, []

    def dying(self, *args, **rest):
        save(self, *args, **rest)
        seen.append(1)
        if len(seen) == dying.at:
            raise Killed

    def kill(number):
        seen.clear()
        dying.at = number
        return seen

    kill(None)
    monkeypatch.setattr(Saver, "save", dying)
    return kill


@pytest.mark.parametrize("name", FITS)
def test_a_killed_fit_goes_on_bit_for_bit(name, folder, killed, tmp_path):
    """Killed three times on its way, it says the same to the last digit; finished, it says it
    again."""
    fit, asked = FITS[name], {"checkpoint": tmp_path / "c", "every": 0, "resume": True}
    whole = told(fit(folder), tmp_path)
    saves = killed(None)
    assert told(fit(folder, **asked), tmp_path) == whole
    count = len(saves)
    (tmp_path / "c").unlink()
    places = set()
    for number in (count // 3, count // 4, count // 5):
        killed(max(number, 1))
        with pytest.raises(Killed):
            fit(folder, **asked)
        places.add(file.read_heading(tmp_path / "c").place)
    killed(None)
    assert len(places) == 3
    assert told(fit(folder, **asked), tmp_path) == whole
    assert file.read_heading(tmp_path / "c").finished
    assert told(fit(folder, **asked), tmp_path) == whole
