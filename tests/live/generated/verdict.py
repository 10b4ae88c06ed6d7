"""What must be true of every session, whatever happened in it."""

import itertools

from tests.live.generated.show import number_of


def judge(show):
    """Raises for whatever is not as it must be."""
    simulator = show.simulator
    assert simulator.violations == ()
    assert [o for o in simulator.outcomes if o.status == "failed"] == []
    assert simulator.open_connections == ()
    assert show.problems == []
    assert show.owed() == set()
    for name in show.asked():
        _judge_deliveries(show, name)
        _judge_runs(show, name)
    _judge_microphone(show)


def _judge_deliveries(show, name):
    asked, cancelled, sent = _history(show, name)
    planned = show.plan[number_of(name)]
    answers = [each for each in sent if each[2] == "answer"]
    # One answer for each time the call was made, on the connection that made it.
    for wire in {w for w, *_ in answers}:
        ids = {call_id for w, _, call_id in asked if w == wire}
        assert len([a for a in answers if a[0] == wire]) <= len(ids), (name, sent)
    for call_id in {of for *_, of in sent}:
        _judge_repetitions(show, name, call_id)
    for wire, at in cancelled:
        after = [each for each in sent if each[:2] > (wire, at)]
        made_again = any((w, a) > (wire, at) for w, a, _ in asked)
        assert made_again or not after, (name, sent, cancelled)
    if name not in show.switched:
        assert {each[3]["status"] for each in sent} <= {planned.status}, (name, sent)


def _judge_repetitions(show, name, call_id):
    """One outcome for each call; once more only if the first may not have arrived.

    The model may make a call a second time, with an id of its own. A call that runs again has an
    outcome of its own, and both may be told in one message.
    """
    asked, _, sent = _history(show, name)
    sent = [each for each in sent if each[-1] == call_id]
    for (wire, at, *_), (next_wire, next_at, *_) in itertools.pairwise(sent):
        made_again = any((wire, at) < (w, a) < (next_wire, next_at) for w, a, _ in asked)
        # Ids of other connections may be the same, and Vertex has none.
        is_shared = len({(w, of) for w, _, of in asked if of == call_id}) > 1
        if not made_again and not is_shared:
            assert next_wire != wire, (name, sent, asked)
            assert show.tap.wires[wire].confirmed <= at, (name, sent, asked)


def _history(show, name):
    """When a call was made, taken back, and its outcome sent: by connection and place in it."""
    asked, cancelled, sent = [], [], []
    ids = set()
    for number, wire in enumerate(show.tap.wires):
        for at, what, call_id, called in wire.received():
            if what == "call" and called == name:
                if (number, call_id) not in {(w, i) for w, _, i in asked}:
                    asked.append((number, at, call_id))
                ids.add(call_id)
            elif what == "cancel" and call_id in ids and _means(asked, number, call_id, show):
                cancelled.append((number, at))
        sent += [
            (number, at, how, body, call_id)
            for at, how, call_id, of, body in wire.delivered()
            if of == name
        ]
    return asked, cancelled, sent


def _means(asked, number, call_id, show):
    """Whether a cancelled id is that of the call: ids of other connections may be the same."""
    return show.unique_ids or any(w == number and i == call_id for w, _, i in asked)


def _judge_runs(show, name):
    number = number_of(name)
    planned = show.plan[number]
    if planned.effect == "once" and name not in show.switched:
        assert show.runs[number] <= 1, name
    works = planned.status in {"ok", "failed"} and name not in show.switched
    if works and name in show.answered() and not show.is_cancelled(name):
        assert show.runs[number] >= 1, name


def _judge_microphone(show):
    came = [
        (each.connection, int.from_bytes(each.data[:4], "big"))
        for each in show.simulator.audio_received
    ]
    missing = set(range(show.frames)) - {number for _, number in came}
    assert missing == set()
    for (before, number), (after, following) in itertools.pairwise(came):
        in_order = following == number + 1
        assert in_order or (before != after and following <= number), (number, following)
