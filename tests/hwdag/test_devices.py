"""Settings of the process that forwards change while they run, and put back."""

import threading

import pytest
import torch

from hwdag.lm.devices import any_length


def is_on():
    return torch.backends.cuda.cudnn_sdp_enabled()


@pytest.fixture(params=[True, False], ids=["on before", "off before"])
def before(request):
    """The switch needs no GPU."""
    kept = is_on()
    torch.backends.cuda.enable_cudnn_sdp(request.param)
    yield request.param
    torch.backends.cuda.enable_cudnn_sdp(kept)


def test_cudnn_is_off_while_a_forward_runs_on_cuda(before):
    with any_length(torch.device("cuda")):
        assert not is_on()
        with any_length(torch.device("cuda", 1)):
            assert not is_on()
        assert not is_on()
    assert is_on() == before
    with pytest.raises(ZeroDivisionError), any_length(torch.device("cuda")):
        _ = 1 / 0
    assert is_on() == before


def test_other_devices_leave_it_alone(before):
    with any_length(torch.device("cpu")):
        assert is_on() == before


def test_forwards_that_overlap_in_threads_put_it_back_once(before):
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def forward():
        with any_length(torch.device("cuda")):
            inside.set()
            leave.wait(10)
            seen.append(is_on())

    thread = threading.Thread(target=forward)
    with any_length(torch.device("cuda")):
        thread.start()
        assert inside.wait(10)
    assert not is_on()  # the other forward continues
    leave.set()
    thread.join()
    assert seen == [False]
    assert is_on() == before
