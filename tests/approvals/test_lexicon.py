"""Only a yes is a yes: both errors, measured on a table; what is promised, by properties."""

# ruff: noqa: RUF001 - words of many scripts, as they are written

import csv
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leonidas_tools import tool
from leonidas_tools.approvals.lexicon import judge
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.terminal import TerminalChannel
from tests.approvals.bench import Bank

ASKED = "Shall I do this: send money, to Ana, amount 20?"
YES = [
    "Yes.",
    "Yes, please.",
    "Okay, do it.",
    "Sure, go ahead.",
    "Sim.",
    "Pode fazer.",
    "好的。",
    "可以",
]


def utterances():
    """What people say: `expected`, `language`, `part`, `question`, `utterance`, `text`."""
    with Path(__file__).with_name("utterances.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def judged(row):
    """What an utterance of the table is taken for; a text in the question is an argument."""
    return judge(row["utterance"], row["question"], [row["text"]] if row["text"] else [])


def figures(part):
    """How often what is no yes is taken for one, and how often a yes and a no are recognised."""
    rows = [(row["expected"], judged(row).value) for row in utterances() if row["part"] == part]
    yes = [said for expected, said in rows if expected == "yes"]
    no = [said for expected, said in rows if expected == "no"]
    others = [said for expected, said in rows if expected != "yes"]
    return {
        "false yes": (others.count("yes"), len(others)),
        "true yes": (yes.count("yes"), len(yes)),
        "clear no": (no.count("no"), len(no)),
    }


PARTS = ("tuning", "held-out", "fresh")


@pytest.mark.parametrize("part", PARTS[:2])
def test_nothing_but_a_yes_is_a_yes_and_a_yes_is_recognised(part):
    found = figures(part)
    print(part, found)
    assert found["false yes"][0] == 0
    assert found["true yes"][0] >= 0.9 * found["true yes"][1]
    assert found["clear no"][0] >= 0.9 * found["clear no"][1]


def test_answers_that_repeat_the_question_are_asked_again_rather_than_misunderstood():
    found = figures("fresh")  # one yes in two of it repeats words of the question
    assert found["false yes"][0] == 0
    assert found["true yes"][0] >= 0.75 * found["true yes"][1]
    assert found["clear no"][0] == found["clear no"][1]


@pytest.mark.parametrize("language", ["en", "pt", "zh"])
def test_a_yes_is_recognised_in_each_language(language):
    said = [
        judged(row)
        for row in utterances()
        if row["expected"] == "yes" and row["language"].startswith(language)
    ]
    assert said.count("yes") >= 0.9 * len(said)


def test_the_readme_has_the_figures():
    parts = [figures(part) for part in PARTS]
    false, others, true, yes = (
        sum(part[name][place] for part in parts)
        for name in ("false yes", "true yes")
        for place in (0, 1)
    )
    row = (
        f"of {others} answers that are not a yes, {false} are accepted as one; "
        f"of {yes} that are, {true} are recognised"
    )
    assert row in Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")


def test_the_table_is_large_and_of_many_languages():
    rows = utterances()
    assert len(rows) >= 400
    assert {"en", "pt-BR", "pt-PT", "zh", "de", "es", "fr", "it", "ja", "ru", "ar"} <= {
        row["language"] for row in rows
    }
    assert len({(row["question"], row["utterance"]) for row in rows}) == len(rows)


# --- at the doors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("Yes, send it to Ana.", True),
        ("好的，谢谢", True),
        ("Yes, to Ben.", False),
        ("Yes, fifty.", False),
        ("Okay, nein.", False),
        ("Correct the amount.", False),
        ("Yes, correct amount 20.", False),
        ("Confirm the amount.", False),
        ("Correct, amount 20.", True),
        ("Sure, reject it.", False),
        ("Okay, one moment please.", False),
    ],
)
async def test_voice_and_terminal_judge_alike(words, runs):
    by_voice = Bank()
    approval = await by_voice.ask()
    by_voice.answer(words)
    await by_voice.confirm(approval)
    lines = iter([f"{words}\n", "no\n"])
    in_terminal = Bank(approval=TerminalChannel(lambda: next(lines), lambda _: None))
    await in_terminal.call("send", to="Ana", amount=20)
    assert by_voice.sent == in_terminal.sent == ([("Ana", 20)] if runs else [])


@pytest.mark.parametrize(
    ("text", "words", "runs"),
    [
        ("see you tomorrow", "Yes, send it to Ana.", True),
        ("see you tomorrow", "Yes, tomorrow.", False),
        ("see you tomorrow", "Yes, see you.", False),
        ("tomorrow", "Yes, tomorrow.", False),
        ("half of it", "Yes, half of it.", False),
        ("morgen", "Okay, morgen.", False),
        ("meet at 5", "Yes, 5.", False),
    ],
)
async def test_an_argument_that_is_a_text_lends_no_words_to_a_yes(text, words, runs):
    sent = []

    @tool(requires_approval=True)
    async def write(to: str, text: str) -> None:
        """Writes to somebody."""
        sent.append(text)

    by_voice = Bank(write)
    approval = (await by_voice.call("write", to="Ana", text=text)).result["approval_id"]
    by_voice.answer(words.replace("send", "write"))
    await by_voice.confirm(approval)
    lines = iter([f"{words.replace('send', 'write')}\n", "no\n"])
    await Bank(write, approval=TerminalChannel(lambda: next(lines), lambda _: None)).call(
        "write", to="Ana", text=text
    )
    assert sent == [text] * 2 * runs


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("Yes.", True),
        ("Yes, post it.", True),
        ("Yes, to Ana.", True),
        ("Yes, encrypt it.", False),
        ("Yes, copy.", False),
        ("Yes, receipt.", False),
        ("Yes, copies.", False),
    ],
)
async def test_the_name_of_an_argument_that_is_off_is_not_repeated_by_a_yes(words, runs):
    sent = []

    @tool(requires_approval=True)
    async def post(to: str, encrypt: bool, copies: int, receipt: str, copy: str | None) -> None:
        """Posts something."""
        sent.append(to)

    bank = Bank(post)
    off = {"encrypt": False, "copies": 0, "receipt": "none", "copy": None}
    approval = (await bank.call("post", to="Ana", **off)).result["approval_id"]
    bank.answer(words)
    await bank.confirm(approval)
    assert sent == ["Ana"] * runs


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("Yes, delete it.", True),
        ("Okay, delete the order.", True),
        ("Sure, number 5.", True),
        ("Fine, delete it, thanks.", True),
        ("Accept the order.", False),
        ("Okay, approve order 5.", False),
        ("Okay, I want that order.", False),
        ("Yes, order it.", False),
        ("Okay, order.", False),
        ("Sure, order number 5.", False),
        ("Right, the order number.", False),
        ("That is fine, thanks.", False),
        ("Fine, cheers.", False),
        ("麻烦你确认", False),
    ],
)
async def test_a_consent_that_begins_another_request_is_no_yes(words, runs):
    deleted = []

    @tool(requires_approval=True)
    async def delete_order(number: int) -> None:
        """Deletes an order."""
        deleted.append(number)

    bank = Bank(delete_order)
    approval = (await bank.call("delete_order", number=5)).result["approval_id"]
    bank.answer(words)
    await bank.confirm(approval)
    assert deleted == [5] * runs


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("Sim, pagar a fatura.", True),
        ("Pode pagar para Ana.", True),
        ("Manda a fatura.", False),
        ("Pode mandar a fatura.", False),
        ("Pode confirmar o valor.", False),
        ("Quero a fatura para Ana.", False),
        ("Certo, o valor.", False),
        ("Sim, para Bruno.", False),
    ],
)
async def test_a_yes_repeats_a_portuguese_question_and_asks_for_nothing_else(words, runs):
    paid = []

    @tool(requires_approval=True)
    async def pagar_fatura(valor: int, para: str) -> None:
        """Paga uma fatura."""
        paid.append(valor)

    bank = Bank(pagar_fatura)
    bank.session.get(SessionPolicy).language = "pt"
    approval = (await bank.call("pagar_fatura", valor=20, para="Ana")).result["approval_id"]
    bank.answer(words)
    await bank.confirm(approval)
    assert paid == [20] * runs


async def test_a_yes_that_names_a_part_of_a_list_is_no_yes_to_all():
    sent = []

    @tool(requires_approval=True)
    async def invite(names: list[str]) -> None:
        """Invites."""
        sent.append(names)

    bank = Bank(invite)
    asked = await bank.call("invite", names=["Ana", "Ben"])
    bank.answer("Yes, Ana.")
    told = await bank.confirm(asked.result["approval_id"])
    assert (told.reason_code, sent) == ("doubtful", [])
    lines = iter(["Yes, Ana.\n", "no\n"])
    in_terminal = Bank(invite, approval=TerminalChannel(lambda: next(lines), lambda _: None))
    await in_terminal.call("invite", names=["Ana", "Ben"])
    assert sent == []


# --- properties --------------------------------------------------------------------------------

words = st.text(
    st.characters(codec="utf-8", categories=("L", "M", "N", "S")), min_size=1, max_size=12
)


@given(st.sampled_from(YES), words, st.sampled_from(["{yes} {word}", "{word} {yes}"]))
def test_a_yes_beside_a_word_that_is_not_known_is_no_yes(yes, word, order):
    if judge(f"Yes, {word}.") != "yes":  # it is no word of consent or politeness itself
        assert judge(order.format(yes=yes, word=word), ASKED) != "yes"


@given(words)
@example("no")
def test_a_word_by_itself_is_a_yes_only_where_it_is_known(word):
    if judge(word) == "yes":
        assert judge(f"{word}, xyzzy") == "doubtful"


def test_an_answer_that_is_not_a_yes_stays_one_when_repeated_or_given_to_another_question():
    said = [row["utterance"] for row in utterances() if row["expected"] != "yes"]
    taken = [
        (text, question)
        for each in said
        for text, question in ((f"{each} {each}", ""), (each, "Shall I pay the bill?"), (each, ""))
        if judge(text, question) == "yes"
    ]
    assert taken == []


def test_a_yes_with_a_word_more_is_no_yes():
    said = [row for row in utterances() if row["expected"] == "yes"]
    taken = [
        (row["utterance"], more)
        for row in said
        for more in ("xyzzy", "but not", "不要", "нет", "…")
        for text in (f"{row['utterance']} {more}", f"{more} {row['utterance']}")
        if judge(text, row["question"]) == "yes"
    ]
    assert taken == []


NO_YES = """
no|nope|don't|not|never|stop|cancel|wait|later|não|nunca|cancela|espera|depois|不|不要|取消|等一下
nein|nicht|non|нет|いいえ|아니요|لا|hayır|nee|nej|nie|όχι|không|jangan|but|if|maybe|mas|se|talvez
如果|但是|?|？|¿|؟|...|…|👎|🛑|"|/|<noise>|\u202e|\u200b
""".strip().replace("\n", "|")


@pytest.mark.parametrize("no", NO_YES.split("|"))
def test_a_yes_beside_a_no_a_condition_or_a_sign_is_no_yes_to_any_question(no):
    for yes, question in product(YES, ("", ASKED, f"Shall I do this: note, text {no}?")):
        assert judge(f"{yes} {no}", question) != "yes"
        assert judge(f"{no} {yes}", question) != "yes"


def test_the_question_lends_its_words_part_by_part_and_no_others():
    def said(text, question=ASKED):
        return judge(text, question).value

    assert {
        text: said(text)
        for text in (
            "Yes, send it to Ana",
            "Yes, send the money",
            "Yes, twenty",
            "Yes, to",
            "Yes, it",
            "Send it to Ana",
            "Yes, amount 2",
            "Yes, to money",
            "Yes, send 20 to Ana",
            "Yes, 20 to Ana",
            "Yes, 20 20",
        )
    } == {
        "Yes, send it to Ana": "yes",
        "Yes, send the money": "yes",
        "Yes, twenty": "yes",
        "Yes, to": "doubtful",
        "Yes, it": "doubtful",
        "Send it to Ana": "doubtful",
        "Yes, amount 2": "doubtful",
        "Yes, to money": "doubtful",
        "Yes, send 20 to Ana": "yes",
        "Yes, 20 to Ana": "yes",
        "Yes, 20 20": "doubtful",
    }
    assert said("Yes, 30 to Ana", "Pay 20 to Ana, account 30?") == "doubtful"
    assert said("Yes, 8", "Book a table, time 8 pm, people 4?") == "doubtful"
    assert said("Yes, tomorrow", "Pay Ana tomorrow?") == "doubtful"
    assert said("Yes, to Ben", "Send 20 to Ana, cc Ben?") == "doubtful"
    assert said("Yes, to Ben", "Send 20 to Ana or to Ben?") == "doubtful"
    assert said("Yes, delete files", "Delete no files?") == "doubtful"
    assert said("Yes, twenty", "Pay twenty five euros?") == "doubtful"
    assert said("Yes, five euros", "Pay twenty-five euros?") == "doubtful"
    assert said("Yes, 20", "Pay 20 thousand euros?") == "doubtful"
    assert said("Confirm the order", "Confirm the order?") == "doubtful"
    assert said("Yes, pay Ana", "Pay Ana " + "for this " * 30) == "doubtful"
    assert said("Yes, pay Ana", "Pay Ana for…") == "doubtful"


def test_consent_after_why_not_asks_why_it_is_refused():
    said = {
        each: judge(each).value
        for each in ("Why not.", "Why not, go ahead.", "Por que não.", "为什么不", "为什么不，可以")
    }
    assert set(said.values()) == {"yes"}, said
    asked = (
        "Why not accept",
        "Por que não pode",
        "Por que não quero.",
        "为什么不可以",
        "为什么不行",
    )
    assert [judge(each).value for each in asked] == ["doubtful"] * len(asked)


@pytest.mark.parametrize("words", ["Approve.", "I accept.", "Granted, thanks.", "Aprovado."])
def test_approval_is_no_yes_to_a_refusal_of_what_it_may_be_meant_for(words):
    assert judge(words, "Shall I do this: answer request, from Deny, user Ana?", ["Deny"]) == "yes"
    assert judge(words, "Shall I do this: deny request, user Ana?", ["Ana"]) == "doubtful"
    assert judge(f"Okay. {words}", "Shall I do this: deny request, user Ana?", ["Ana"]) != "yes"
    assert judge(words, "Shall I do this: block payment, number 7?") == "doubtful"
    assert judge(words, "Posso fazer isto: recusar pedido?") == "doubtful"


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("Please proceed.", "Shall I do this: stop download, number 7?"),
        ("Let's go.", "Shall I do this: stop timer, number 7?"),
        ("Bora.", "Posso fazer isto: parar o relógio?"),
        ("Pode continuar.", "Posso fazer isto: parar download?"),
        ("继续吧", "要停止下载吗？"),
        ("好的，批准", "要拒绝这个请求吗？"),
        ("可以批准", "要冻结这笔付款吗？"),
    ],
)
def test_to_go_on_is_no_yes_to_a_stop(words, question):
    assert judge(words, question) == "doubtful"
    assert judge(words, "Shall I do this: pay, amount 7?") == "yes"


def test_a_pause_and_the_end_of_a_sentence_are_heard_alike_in_thanks_for_nothing():
    said = ("Fine. Thanks.", "Fine! Thank you.", "Fine, thanks.", "Obrigada, tá.", "Obrigado. Tá.")
    assert [judge(each).value for each in said] == ["doubtful"] * len(said)


def test_what_comes_after_the_longest_answer_cannot_be_lost():
    assert judge("yes " + "\ufdfa" * 150 + " no") == "doubtful"  # each becomes 18 characters
    assert judge("yes " * 50 + "no") == "doubtful"


@pytest.mark.parametrize(
    "part", ["yes ", "no no yes ", "好", "、", "a'", "1,", "é", "…", "\u0301", "\u200b", "the it "]
)
def test_an_answer_of_any_length_is_judged_in_time_that_is_bounded(part):
    assert judge(part * 200_000, part * 200_000) != "yes"
