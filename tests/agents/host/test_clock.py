"""The agent's clock follows the machine's forward if that lasts, never back, and is caught up with in twice a step."""

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.host.clock import AHEAD_MS, BELIEVED_MS, STEP_MS_MAX, Clock, Doubt

HOUR_MS = 3_600_000


class Machine:
    """A machine whose time of day is set by hand."""

    def __init__(self) -> None:
        self.set_ms, self.up_ms = 1_000_000_000, 7
        self.clock = Clock(lambda: self.set_ms + self.up_ms, lambda: self.up_ms)


def test_it_is_the_time_of_day_while_nobody_sets_that() -> None:
    machine = Machine()
    for _ in range(100):
        machine.up_ms += 3
        assert machine.clock() == machine.set_ms + machine.up_ms
        assert machine.clock.ahead_ms() == 0


def test_set_forward_it_follows_once_that_has_lasted_and_set_back_it_goes_on_at_half_its_pace() -> None:
    machine = Machine()
    machine.set_ms += HOUR_MS
    now_ms = machine.clock()
    assert now_ms == machine.set_ms + machine.up_ms - HOUR_MS
    assert machine.clock.doubt() is Doubt.AHEAD, "what is logged now has its time, and closes nothing"
    machine.up_ms += BELIEVED_MS - 1
    assert machine.clock() == now_ms + BELIEVED_MS - 1
    machine.up_ms += 1
    before_ms = machine.clock()
    assert machine.clock.doubt() is Doubt.NONE
    assert before_ms == machine.set_ms + machine.up_ms
    machine.set_ms -= HOUR_MS
    assert machine.clock() == before_ms
    assert machine.clock.ahead_ms() == HOUR_MS
    for step in range(1, 101):
        machine.up_ms += 1
        assert machine.clock() == before_ms + step // 2
    machine.up_ms += 2 * HOUR_MS
    assert machine.clock.ahead_ms() == 0
    assert machine.clock() == machine.set_ms + machine.up_ms


def test_a_slip_forward_costs_nothing_and_a_small_step_is_followed_at_once() -> None:
    machine = Machine()
    for step_ms in (HOUR_MS, STEP_MS_MAX + 1):
        machine.set_ms += step_ms
        for _ in range(10):
            machine.up_ms += BELIEVED_MS // 10 - 1
            assert machine.clock() == machine.set_ms + machine.up_ms - step_ms
        assert machine.clock.doubt() is Doubt.AHEAD
        machine.set_ms -= step_ms
        assert (machine.clock(), machine.clock.ahead_ms()) == (machine.set_ms + machine.up_ms, 0)
        assert machine.clock.doubt() is Doubt.NONE
    machine.set_ms += STEP_MS_MAX
    assert machine.clock() == machine.set_ms + machine.up_ms


def test_each_step_forward_has_to_last() -> None:
    machine = Machine()
    now_ms = machine.clock()
    for _ in range(10):
        machine.set_ms += HOUR_MS
        machine.clock()
        machine.up_ms += BELIEVED_MS - 1
        now_ms += BELIEVED_MS - 1
        assert machine.clock() == now_ms


def test_a_restart_with_an_earlier_time_of_day_goes_on_where_intervals_were_closed() -> None:
    machine = Machine()
    now_ms = machine.clock()
    machine.clock.advance_to(now_ms - 5)
    assert machine.clock() == now_ms
    machine.clock.advance_to(now_ms + HOUR_MS)
    assert machine.clock() == now_ms + HOUR_MS
    machine.up_ms += 10
    assert machine.clock() == now_ms + HOUR_MS + 5


def test_found_to_be_ahead_it_steps_back_but_not_behind_what_it_has_closed() -> None:
    machine = Machine()
    true_ms = machine.set_ms
    machine.set_ms += HOUR_MS
    machine.up_ms += BELIEVED_MS
    machine.clock()
    machine.up_ms += BELIEVED_MS
    assert machine.clock() == true_ms + HOUR_MS + machine.up_ms
    machine.clock.heed(true_ms)
    assert machine.clock() == true_ms + machine.up_ms
    assert (machine.clock.apart_ms(), machine.clock.ahead_ms(), machine.clock.doubt()) == (HOUR_MS, 0, Doubt.AHEAD)
    machine.set_ms = true_ms
    machine.up_ms += 5
    assert (machine.clock(), machine.clock.ahead_ms()) == (true_ms + machine.up_ms, 0), "set right, nothing happens"
    assert (machine.clock.apart_ms(), machine.clock.doubt()) == (0, Doubt.NONE)
    closed_ms = machine.clock() + HOUR_MS
    machine.clock.advance_to(closed_ms)
    machine.set_ms += HOUR_MS
    machine.up_ms += 10
    assert (machine.clock(), machine.clock.ahead_ms()) == (closed_ms + 5, HOUR_MS - 5), "as if it was set back"


def test_a_slip_forward_is_not_believed_while_the_neighbours_say_otherwise() -> None:
    machine = Machine()
    machine.clock.heed(machine.set_ms)
    machine.set_ms += HOUR_MS
    for _ in range(5):
        machine.up_ms += BELIEVED_MS
        assert machine.clock() == machine.set_ms + machine.up_ms - HOUR_MS
    machine.clock.heed(machine.set_ms)
    assert machine.clock() == machine.set_ms + machine.up_ms - HOUR_MS, "they are set, too; it is to last"
    machine.up_ms += BELIEVED_MS
    assert machine.clock() == machine.set_ms + machine.up_ms


def test_a_little_ahead_or_far_behind_it_goes_its_own_way() -> None:
    for apart_ms in (AHEAD_MS, -HOUR_MS):
        machine = Machine()
        machine.clock.heed(machine.set_ms - apart_ms)
        machine.up_ms += 10
        assert (machine.clock(), machine.clock.doubt()) == (machine.set_ms + machine.up_ms, Doubt.NONE)
        assert machine.clock.apart_ms() == apart_ms
    machine.clock.heed(None)
    assert machine.clock.apart_ms() is None


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(-HOUR_MS, HOUR_MS))))
def test_it_never_steps_back_nor_falls_behind_nor_stands_still(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    before_ms = machine.clock()
    for passed_ms, set_by_ms in steps:
        machine.up_ms += passed_ms
        machine.set_ms += set_by_ms
        now_ms = machine.clock()
        assert now_ms >= before_ms + passed_ms // 2
        machine.up_ms += BELIEVED_MS
        before_ms = machine.clock()
        assert before_ms >= machine.set_ms + machine.up_ms


def test_the_latest_time_is_the_neighbours_where_this_clock_is_behind() -> None:
    machine = Machine()
    now_ms = machine.clock()
    assert machine.clock.latest_ms() == now_ms
    machine.clock.heed(now_ms + HOUR_MS - machine.up_ms)
    assert machine.clock.latest_ms() == now_ms + HOUR_MS
    machine.clock.heed(now_ms - 1_000 - machine.up_ms)
    assert machine.clock.latest_ms() == now_ms
