"""Yes, no, or neither, in three languages."""

# ruff: noqa: RUF001 - Chinese punctuation, as it is written

import pytest

from leonidas_tools.approvals.lexicon import judge

YES = [
    "Yes",
    "yes please",
    "Yeah, sure",
    "go ahead",
    "Okay do it",
    "no problem",
    "why not",
    "Sim",
    "pode sim",
    "Não, pode sim",
    "não pode sim",
    "claro que sim",
    "Pode mandar",
    "tá bom",
    "faz isso",
    "好的",
    "可以",
    "没问题",
    "是的，发吧",
    "行",
    "对",
    "嗯",
    "Yes, send it to Ana right away please my friend",
    "sim, por favor",
    "Ok.",
    "不错",
    "当然可以",
    "sem problema",
    "YES!!",
    "Ｙｅｓ",
]
NO = [
    "No",
    "no, don't",
    "nope",
    "don't do it",
    "No, stop",
    "cancel",
    "not now",
    "wait",
    "não",
    "não, obrigado",
    "agora não",
    "cancela",
    "não pode",
    "不行",
    "不要",
    "别",
    "取消",
    "算了",
    "不可以",
    "不是",
    "不好",
    "等一下",
    "不同意",
    "不对",
    "没有",
    "nunca",
    "do not go ahead",
    "Don’t!",
    "NO",
    "não faz isso",
    "不可以的",
]
DOUBTFUL = [
    "yes but not now",
    "maybe",
    "yes if it's cheap",
    "what?",
    "okay, how much is it?",
    "yes, make it thirty",
    "sim, mas não agora",
    "sim, mas só dez",
    "talvez",
    "好，但是不要现在",
    "好不好",
    "可以吗",
    "I told him yes yesterday",
    "Send twenty euros to Ana",
    "",
    "hmm",
    "no wait yes",
    "什么",
    "the weather is fine in the north of the country today",
    "don't say yes",
    "sim não",
    "yes no",
    "I guess so yes",
    "可不可以",
    "no, go ahead",
    "No problem, but wait",
    "yes?",
    "Is it okay?",
    "sim?",
    "如果便宜的话可以",
    "don't stop, go ahead",
    "I said no yesterday, okay",
]


@pytest.mark.parametrize("text", YES)
def test_a_clear_yes_is_a_yes(text):
    assert judge(text) == "yes"


@pytest.mark.parametrize("text", NO)
def test_a_clear_no_is_a_no(text):
    assert judge(text) == "no"


@pytest.mark.parametrize("text", DOUBTFUL)
def test_all_else_is_neither(text):
    assert judge(text) == "doubtful"


@pytest.mark.parametrize("text", [*NO, *DOUBTFUL])
def test_nothing_but_a_yes_is_a_yes_also_when_it_is_said_twice(text):
    assert judge(f"{text} {text}") != "yes"
