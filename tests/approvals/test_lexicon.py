"""Only a yes is a yes: both errors, measured on a table; what is promised, by properties."""

# ruff: noqa: RUF001 - words of many scripts, as they are written

import csv
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leonidas_tools import Tool
from leonidas_tools.approvals.lexicon import judge, lexicon
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.errors import ConfigurationError
from tests.approvals.bench import Bank

ASKED = "Shall I do this: send money, to Ana, amount 20?"
VALUES = ["Ana", "20"]
LANGUAGES = ["en", "pt", "es", "de", "fr", "it", "zh"]
YES = ["Yes.", "Yes, please.", "Okay, do it.", "Sure, go ahead.", "Sim.", "Pode fazer.",
       "Sí, hazlo.", "Ja, mach das.", "Oui, vas-y.", "Sì, fallo.", "好的。", "可以"]  # fmt: skip


def utterances():
    """The rows: an answer to a question with values, its verdict, and a second answer."""
    with Path(__file__).with_name("utterances.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def judged(row, answer="utterance"):
    values = row["values"].split("|") if row["values"] else []
    return judge(row[answer], row["question"], values, language=row["language"])


def recognised(rows):
    """Return how many yeses are recognised at first, and how many by the second question."""
    first = [row for row in rows if judged(row) == "yes"]
    second = [row for row in rows if row not in first and judged(row, "second") == "yes"]
    return len(first), len(first) + len(second)


TABLE = utterances()
CONSENTS = [row for row in TABLE if row["verdict"] == "yes"]
OTHERS = [row for row in TABLE if row["verdict"] != "yes"]


def test_nothing_else_is_a_yes():
    assert [row for row in OTHERS if judged(row) == "yes"] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_most_yeses_are_recognised(language):
    rows = [row for row in CONSENTS if row["language"] == language]
    assert recognised(rows)[0] >= 0.7 * len(rows)


def test_by_the_second_question_nearly_all_are():
    blind = [row for row in CONSENTS if row["part"] == "blind"]
    first, second = recognised(blind)
    assert (first >= 0.8 * len(blind), second >= 0.97 * len(blind)) == (True, True)
    assert recognised(CONSENTS)[0] >= 0.8 * len(CONSENTS)


def test_a_clear_no_is_a_no():
    found = [judged(row).value for row in TABLE if row["verdict"] == "no"]
    assert found.count("no") >= 0.8 * len(found)
    assert set(found) <= {"no", "doubtful"}


def test_the_readme_has_the_figures():
    blind = [row for row in CONSENTS if row["part"] == "blind"]
    first, second = recognised(blind)
    row = (
        f"of {len(OTHERS)} answers that are not a yes, 0 are accepted as one; of {len(CONSENTS)} "
        f"that are, {recognised(CONSENTS)[0]} are recognised at once; of {len(blind)} that were "
        f"written without knowledge of the judge, {first}, and {second} when asked again"
    )
    assert row in Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")


def test_the_table_is_large_and_of_seven_languages():
    assert len(CONSENTS) >= 300
    assert len(OTHERS) >= 500
    for language in LANGUAGES:
        verdicts = [row["verdict"] for row in TABLE if row["language"] == language]
        assert min(map(verdicts.count, ("yes", "no", "unclear"))) >= 30
    keys = {(row["language"], row["question"], row["utterance"]) for row in TABLE}
    assert len(keys) == len(TABLE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_of_the_second_question_count(language):
    again = lexicon(language).again(language)
    yes, no = (said for said in again.replace("'", "|").replace("«", "|").replace("»", "|")
               .replace("“", "|").replace("”", "|").split("|")[1::2])  # fmt: skip
    assert (judge(yes), judge(no)) == ("yes", "no")


# --- at the doors ------------------------------------------------------------------------------


def needs_approval(name, arguments):
    async def act(**given: object) -> None: ...

    kinds = {bool: "boolean", int: "integer", str: "string", list: "array"}
    properties = {key: {"type": kinds[type(value)]} for key, value in arguments.items()}
    return Tool.from_json_schema(
        name=name,
        description="",
        parameters={"type": "object", "properties": properties},
        function=act,
        requires_approval=True,
    )


async def answered(words, name="send", arguments=None, *, language="en"):
    """Return whether a tool runs after an answer by voice, and after one in the terminal."""
    given = arguments or {"to": "Ana", "amount": 20}
    more = [] if name == "send" else [needs_approval(name, given)]
    lines = iter([f"{words}\n", "no\n"])
    ran = []
    for options in ({}, {"approval": TerminalChannel(lambda: next(lines), lambda _: None)}):
        bank = Bank(*more, **options)
        bank.session.get(SessionPolicy).language = language
        result = await bank.call(name, **given)
        if not options:
            bank.hears(result.result["ask"], words)
            result = await bank.confirm(result.result["approval_id"])
        ran.append(result.ok)
    return ran


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("Yes, send it.", True),
        ("Go ahead and send it.", True),
        ("Yes, send Ana 20.", True),
        ("好的，谢谢", True),
        ("好 的 谢谢 你", True),
        ("Yes, to Ben.", False),
        ("Yes, to Ana.", False),
        ("Yes, amount 20.", False),
        ("Yes, fifty.", False),
        ("Yes, tomorrow.", False),
        ("Okay, nein.", False),
        ("I accept.", False),
        ("Go on.", False),
        ("Continue.", False),
        ("Approved.", False),
        ("Correct the amount.", False),
        ("Sure, reject it.", False),
        ("Okay, one moment please.", False),
        ("Yes, if it is cheap.", False),
        ("Yes, ", False),
        ("Yes?", False),
    ],
)
async def test_voice_and_terminal_judge_alike(words, runs):
    assert await answered(words) == [runs, runs]


@pytest.mark.parametrize(
    ("words", "name", "arguments", "runs"),
    [
        ("Yes, delete it.", "delete_order", {"number": 5}, True),
        ("Okay, delete the order.", "delete_order", {"number": 5}, True),
        ("Sure, number 5.", "delete_order", {"number": 5}, True),
        ("Okay, order.", "delete_order", {"number": 5}, False),
        ("Yes, order it.", "delete_order", {"number": 5}, False),
        ("Sure, order number 5.", "delete_order", {"number": 5}, False),
        ("Yes, delete number.", "delete_order", {"number": 5}, False),
        ("Yes, order it.", "order_cancel", {"number": 5}, False),
        ("Yes, order it.", "order_delete", {"number": 5}, False),
        ("Yes, please transfer.", "transfer_delete", {}, False),
        ("Manda a fatura.", "pagar_fatura", {"para": "Ana", "valor": 20}, False),
        ("Yes, the hotel Ritz.", "book", {"hotel": "Ritz", "car": "BMW"}, False),
        ("Yes, book the hotel.", "book", {"hotel": "Ritz", "car": "BMW"}, False),
        ("Yes, book hotel Ritz, car BMW.", "book", {"hotel": "Ritz", "car": "BMW"}, True),
        ("Yes, book car BMW, hotel Ritz.", "book", {"hotel": "Ritz", "car": "BMW"}, False),
        ("Yes, both.", "book", {"hotel": "Ritz", "car": "BMW"}, True),
        ("Yes, Ana.", "invite", {"names": ["Ana", "Ben"]}, False),
        ("Yes, both.", "invite", {"names": ["Ana", "Ben", "Eve"]}, False),
        ("Yes, invite them.", "invite", {"names": ["Ana", "Ben"]}, True),
        ("Yes, encrypt it.", "post", {"to": "Ana", "encrypt": False, "copies": 0}, False),
        ("Yes, post it.", "post", {"to": "Ana", "encrypt": False, "copies": 0}, True),
        ("I accept.", "turn_down_offer", {"company": "Acme"}, False),
        ("Yes, turn it down.", "turn_down_offer", {"company": "Acme"}, True),
        ("Please proceed.", "stop_timer", {}, False),
        ("Yes, stop it.", "stop_timer", {}, True),
        ("Stop it.", "stop_timer", {}, False),
        ("Yes, don't stop it.", "stop_timer", {}, False),
        ("Okay, cancel.", "stop_timer", {}, False),
        ("Sim, pode pagar.", "pagar_fatura", {"para": "Ana", "valor": 20}, True),
        ("Quero a fatura.", "pagar_fatura", {"para": "Ana", "valor": 20}, False),
        ("Sim, para Ana.", "pagar_fatura", {"para": "Ana", "valor": 20}, False),
        ("Sí, envíalo.", "enviar_dinero", {"a": "Ana"}, True),
        ("Sí, envíalo a Eva.", "enviar_dinero", {"a": "Ana"}, False),
    ],
)
async def test_a_yes_may_repeat_the_question(words, name, arguments, runs):
    assert await answered(words, name, arguments) == [runs, runs]


@pytest.mark.parametrize(("language", "runs"), [("es", False), ("de", True), ("en", True)])
async def test_a_laugh_in_the_language_of_the_session_is_no_yes(language, runs):
    assert await answered("Ja.", language=language) == [runs, runs]


async def test_the_settings_add_a_language():
    japanese = {"consent": ["はい", "お願いします"], "refusal": "いいえ"}
    words = {"ja": {**japanese, "again": "「はい」か「いいえ」で。"}}
    bank = Bank(policies={"approval": {"consent_words": words}})
    bank.session.get(SessionPolicy).language = "ja-JP"
    approval = await bank.ask()
    bank.answer("たぶん", approval)
    again = (await bank.confirm(approval)).result["ask"]
    assert again == "Shall I do this: send, to Ana, amount 20? 「はい」か「いいえ」で。"
    bank.hears(again, "はい、お願いします。")
    assert (await bank.confirm(approval)).ok
    other = await bank.ask("Ben")
    bank.answer("いいえ", other)
    assert (await bank.confirm(other)).reason_code == "contradicted"


@pytest.mark.parametrize(
    ("phrase", "problem"),
    [("stop", "'stop' has a word of refusal, so it can never be a yes"), ("!", "'!' has no word")],
)
def test_the_settings_add_no_yes_that_cannot_count(phrase, problem):
    with pytest.raises(ConfigurationError, match=problem):
        Bank(policies={"approval": {"consent_words": {"en": {"consent": [phrase]}}}})


# --- properties --------------------------------------------------------------------------------

words = st.text(
    st.characters(codec="utf-8", categories=("L", "M", "N", "S")), min_size=1, max_size=12
)


@given(st.sampled_from(YES), words, st.sampled_from(["{yes} {word}", "{word} {yes}"]))
def test_an_unknown_word_beside_a_yes_is_no_yes(yes, word, order):
    if judge(f"Yes, {word}.") != "yes":  # it is no word of consent or politeness itself
        assert judge(order.format(yes=yes, word=word), ASKED, VALUES) != "yes"


@given(words)
@example("no")
def test_a_single_word_is_a_yes_only_if_it_is_known(word):
    if judge(word) == "yes":
        assert judge(f"{word}, xyzzy") == "doubtful"


def test_no_other_answer_becomes_a_yes_by_repetition():
    taken = [
        (text, question)
        for row in OTHERS
        for each in [row["utterance"]]
        for text, question in ((f"{each} {each}", ""), (each, "Shall I pay the bill?"))
        if judge(text, question, language=row["language"]) == "yes"
    ]
    assert taken == []


def test_a_yes_with_a_word_more_is_no_yes():
    taken = [
        (row["utterance"], more)
        for row in CONSENTS
        for more in ("xyzzy", "but not", "不要", "нет", "…")
        for text in (f"{row['utterance']} {more}", f"{more} {row['utterance']}")
        if judge(text, row["question"], row["values"].split("|"), language=row["language"]) == "yes"
    ]
    assert taken == []


NO_YES = """
no|nope|don't|not|never|stop|cancel|wait|later|não|nunca|cancela|espera|depois|不|不要|取消|等一下
nein|nicht|non|pas|nunca|jamás|mai|нет|いいえ|아니요|لا|hayır|nej|όχι|không|but|if|maybe|mas|se|talvez
pero|si|aber nur|wenn|mais pas|ma non|accept|continue|如果|但是|?|？|¿|؟|...|…|👎|🛑|"|/
<noise>|\u202e|\u200b
""".strip().replace("\n", "|")


@pytest.mark.parametrize("no", NO_YES.split("|"))
def test_a_no_a_condition_or_a_sign_spoils_every_yes(no):
    for yes, question in product(YES, ("", ASKED, f"Shall I do this: note, text {no}?")):
        assert judge(f"{yes} {no}", question) != "yes"
        assert judge(f"{no} {yes}", question) != "yes"


def test_what_comes_after_the_longest_answer_is_not_lost():
    assert judge("yes " + "\ufdfa" * 150 + " no") == "doubtful"  # each becomes 18 characters
    assert judge("yes " * 50 + "no") == "doubtful"


@pytest.mark.parametrize(
    "part", ["yes ", "no no yes ", "好", "、", "a'", "1,", "é", "…", "\u0301", "\u200b", "the it "]
)
def test_an_answer_of_any_length_is_judged_in_bounded_time(part):
    assert judge(part * 200_000, part * 200) != "yes"
