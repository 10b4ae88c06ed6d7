"""The ledger of calls, where the order of events matters."""

from leonidas_tools.simulator.ledger import CallLedger

RESPONSE = {"id": "c1", "name": "f", "response": {}}


def test_an_answer_that_crosses_the_cancellation_is_no_violation():
    ledger = CallLedger()
    ledger.sent(1, "c1", "f", {})
    ledger.cancelled(1, ["c1"])
    assert ledger.answered(1, RESPONSE) is None
    (record,) = ledger.records
    assert (record.cancelled, record.answered_once, len(record.answers)) == (True, True, 1)


def test_an_answer_to_a_cancellation_that_has_arrived_is_late():
    ledger = CallLedger()
    ledger.sent(1, "c1", "f", {})
    ledger.cancelled(1, ["c1", "unknown"])
    ledger.cancellation_seen(1, ["c1"])
    problem = ledger.answered(1, RESPONSE)
    assert problem == "call 'c1' of 'f' was cancelled; no response is allowed"
    assert not ledger.records[0].answered_once


def test_an_id_that_was_not_sent_says_nothing():
    ledger = CallLedger()
    ledger.sent(1, "c1", "f", {}, id_sent=False)
    ledger.sent(1, "c2", "f", {}, id_sent=False)
    assert ledger.answered(1, {"id": "c2", "name": "f", "response": {}}) is None
    assert [record.pending for record in ledger.records] == [False, True]
