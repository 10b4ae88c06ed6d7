"""Yes, no, or neither: a small ear for English, Portuguese and Chinese.

It never says yes to what could be meant otherwise. A yes beside a no, a condition, a change or a
question is neither: to ask once more costs a sentence, and a wrong yes what it lets happen.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from enum import StrEnum
from typing import TypeAlias

_LONGEST_ASIDE = 6
"""In how many words a yes may stand anywhere; in more it must come first."""

_YES = """
yes|yeah|yea|yep|yup|yah|aye|sure|ok|okay|okey|go ahead|do it|do that|please do|confirm|confirmed
i confirm|absolutely|definitely|certainly|of course|right|correct|alright|all right|sounds good
proceed|affirmative|approved|i approve|go for it|by all means|fine|that's fine|exactly|indeed
sim|claro|pode|podes|pode ser|pode sim|ta|tá|ta bom|tá bom|tudo bem|está bem|esta bem|certo
com certeza|confirmo|confirma|confirmado|faz|faça|faca|faz isso|manda|mande|vai|isso|isso mesmo
beleza|positivo|exato|exatamente|perfeito|autorizo|autorizado|de acordo|combinado|quero sim
força|avança|avance|vá em frente|vai em frente
"""
_YES_ALTHOUGH = """
why not|no problem|not a problem|no worries|no objection|no objections|i don't mind
sem problema|sem problemas|por que não|por que nao
não pode sim|nao pode sim|não não pode sim|nao nao pode sim
"""
_NO_ALTHOUGH = r"""
(?:don't|dont|do not|not|never|can't|cannot|won't)
\ (?:do\ it|do\ that|go\ ahead|proceed|confirm|right|ok|okay|sure|fine|correct|approved?)
|(?:não|nao|nunca)
\ (?:podes?|pode\ ser|faz|faça|faca|mande?|vai|confirmo|confirma|autorizo|está\ bem|quero)
(?:\ isso)?
"""
_NO = """
no|nope|nah|not|never|don't|dont|do not|doesn't|didn't|cannot|can't|cant|won't|wouldn't|shouldn't
stop|cancel|abort|wait|hold on|hang on|later|negative|refuse|decline|deny|forget it|never mind
nevermind|leave it|skip it|undo|isn't|wrong|rather|neither|nothing|without
não|nao|nunca|jamais|cancela|cancele|cancelar|pare|pára|espera|espere|esperar|calma|deixa|deixe
depois|negativo|recuso|nego|esquece|esqueça|nem|errado|ainda|agora não|agora nao|nada|sem
"""
_UNSURE = """
but|if|unless|only|instead|except|maybe|perhaps|possibly|actually|change|make it|how|what|who|why
when|where|which|whether|probably|guess|think|suppose|hmm|hm|um|uh|first|before|after|until|said
told|mas|se|só|so se|somente|apenas|em vez|talvez|acho|na verdade|muda|mude|troca|troque|como|qual
quais|quem|quanto|quanta|quantos|quantas|por que|porque|quando|onde|primeiro|antes|exceto|menos
disse|porém
"""
_YES_ALTHOUGH_ZH = """
没问题|没有问题|没错|不错|不用问|没事|沒問題|沒錯|为什么不|為什麼不
"""
_YES_ZH = """
好的|好吧|好啊|好呀|好|是的|是|可以|行|对|嗯|确认|确定|同意|批准
去吧|去做|做吧|发吧|要的|当然|成|允许|继续|對|確認|確定|當然|允許|繼續
"""
_NO_ZH = """
不|别|別|取消|算了|停|等|先别|没有|沒有|拒绝|拒絕|不要|不行|以后|以後|待会|待會|晚点|晚點|没|沒|否|错|錯
"""
_UNSURE_ZH = """
但|但是|不过|不過|如果|要是|除非|只|改|换|換|可能|也许|也許|吗|嗎|呢|什么|什麼|多少|怎么|怎麼|为什么|為什麼
谁|誰|哪|几|幾|先|说|說
"""
_ASKING_ZH = "好不好|行不行|可不可以|是不是|对不对|能不能|要不要"


_Table: TypeAlias = "tuple[tuple[Said, re.Pattern[str]], ...]"
"""In this order: what is an idiom is no longer there when its parts are looked for."""


class Said(StrEnum):
    """What an utterance says to a question of yes or no."""

    YES = "yes"
    NO = "no"
    DOUBTFUL = "doubtful"


def judge(text: str) -> Said:
    """What an utterance says to a question of yes or no.

    Args:
        text: What was heard.

    Example:
        >>> [judge(text).value for text in ("Yes, do it.", "No, don't!", "Yes, but not now.")]
        ['yes', 'no', 'doubtful']
        >>> [judge(text).value for text in ("Não, pode sim.", "不行", "好的")]
        ['yes', 'no', 'yes']
    """
    heard = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")  # noqa: RUF001 - heard so
    found = {Said.YES: False, Said.NO: False, Said.DOUBTFUL: "?" in heard}
    for rest, table in ((_words(heard), _of_words()), (_characters(heard), _of_characters())):
        left = rest
        for said, pattern in table:
            # What is found is taken out, so that no idiom is heard again as its parts.
            left, count = pattern.subn("|", left)
            found[said] = found[said] or count > 0
    if found[Said.NO] and not found[Said.YES]:
        return Said.NO
    if found[Said.NO] or found[Said.DOUBTFUL] or not found[Said.YES]:
        return Said.DOUBTFUL
    return Said.YES if _is_plain(heard) else Said.DOUBTFUL


def _is_plain(heard: str) -> bool:
    """Whether a yes stands first, or among few words."""
    words, characters = _words(heard), _characters(heard)
    if len(words.split()) + len(characters) <= _LONGEST_ASIDE:
        return True
    return any(
        pattern.match(rest) is not None
        for rest, table in ((words, _of_words()), (characters, _of_characters()))
        for said, pattern in table
        if said is Said.YES
    )


def _words(heard: str) -> str:
    return " ".join(re.findall(r"[^\W\d_\u3400-\u9fff]+(?:'[^\W\d_\u3400-\u9fff]+)*", heard))


def _characters(heard: str) -> str:
    return "".join(re.findall(r"[\u3400-\u9fff]", heard))


@functools.cache
def _of_words() -> _Table:
    expressions = (
        (Said.YES, _phrases(_YES_ALTHOUGH)),
        (Said.NO, re.sub(r"\n", "", _NO_ALTHOUGH)),
        (Said.YES, _phrases(_YES)),
        (Said.NO, _phrases(_NO)),
        (Said.DOUBTFUL, _phrases(_UNSURE)),
    )
    return tuple(
        (said, re.compile(rf"(?<![\w'])(?:{each})(?![\w'])")) for said, each in expressions
    )


@functools.cache
def _of_characters() -> _Table:
    expressions = (
        (Said.DOUBTFUL, _phrases(_ASKING_ZH)),
        (Said.YES, _phrases(_YES_ALTHOUGH_ZH)),
        (Said.NO, f"[不没沒别別](?:{_phrases(_YES_ZH)})"),
        (Said.YES, _phrases(_YES_ZH)),
        (Said.NO, _phrases(_NO_ZH)),
        (Said.DOUBTFUL, _phrases(_UNSURE_ZH)),
    )
    return tuple((said, re.compile(each)) for said, each in expressions)


def _phrases(text: str) -> str:
    """The phrases of a table as an expression, the longest first."""
    phrases = [each for each in re.split(r"[|\n]", text) if each]
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))
