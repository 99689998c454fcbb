"""Models that are loaded before the first question."""

import threading

from index_world import documents, index_of

from hwdag.errors import ModelNotFound
from hwdag_app.warming import warm
from hwdag_lab.scripted import ScriptedLM


class Loading(ScriptedLM):
    """A reader whose weights are loaded when they are asked for, in some thread."""

    def __init__(self, error=None):
        super().__init__()
        self.error, self.threads = error, []

    @property
    def model(self):
        self.threads.append(threading.current_thread())
        if self.error:
            raise self.error


def test_the_reader_is_loaded_in_the_background_and_that_is_printed(capsys):
    for error in (None, ModelNotFound("it is gone")):
        reader = Loading(error)
        with index_of(documents(1), reader=reader) as index:
            thread = warm(index)
            thread.join(60)
        assert reader.threads == [thread]
        assert capsys.readouterr().err == "the reader is loading in the background\n"


def test_with_an_answerer_nothing_is_loaded(capsys):
    reader = Loading()
    with index_of(documents(1), reader=reader, answerer=lambda prompt: "x") as index:
        assert warm(index) is None
    assert reader.threads == []
    assert capsys.readouterr().err == ""
