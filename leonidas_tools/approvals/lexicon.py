"""Judge an answer: yes, no or doubtful, in English, Portuguese and Chinese.

The judgement avoids a wrong yes at the cost of asking again. Words of consent, of politeness and of
the question itself are removed; an answer is a yes only if nothing is left. So an unknown word, in
any language or script, makes an answer doubtful.
"""

# ruff: noqa: RUF001 - words of many scripts

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_LONGEST = 200
"""Maximum characters that are judged. A longer answer is never a yes; a longer question has no
words that a yes may repeat."""

_CONSENT = """
yes|yes i do|yes , i do|yes i am .|yes , i am .|yes you can|yes , you can|yes it is|yes , it is
yes it's fine|yes , it's fine|oh yes|oh , yes|ah yes|ah , yes|yeah|yea|yep|yup|yah|aye|sure
sure thing|for sure|ok|okay|okey|okey dokey|okay then|ok then|alright|all right|alright then|right
correct|exactly|indeed|precisely|absolutely|definitely|certainly|totally|of course|affirmative|fine
go ahead|go for it|go right ahead|do it|do that|do so|please do|do this|please do this|please do it
please do that|let's do it|let's do that|let's go|let's go ahead|by all means|confirm|confirmed
i confirm|i confirm it|i confirm that|approve|approved|i approve|i approve it|i agree|agreed
i accept|accept|accepted|i consent|granted|permission granted|proceed|please proceed|you may
you may proceed|you may go ahead|you may do it|you may do that|you can do it|you can do that
you can go ahead|you can proceed|you have my permission|feel free|be my guest|sounds good
sounds great|sounds fine|sounds right|that sounds good|that sounds great|that sounds fine
that sounds right|that's fine|that is fine|that's right|that is right|that's correct
that is correct|that works|that works for me|works for me|fine by me|fine with me|okay with me
ok with me|that's okay with me|that's ok with me|that's fine with me|that's fine by me
i'm okay with that|i'm ok with that|i'm fine with that|it's fine with me|why not|no problem
not a problem|no objection|no objections|go on then|confirm it|yessir|yes from me|it's a yes
yes i would|yes , i would|sim|ah sim|ah , sim|claro|claro que sim|claro que pode|claro que podes
pois claro|pode|podes|pode sim|podes sim|pode ser|pode fazer|podes fazer|pode fazer isso
podes fazer isso|pode mandar|podes mandar|pode ir em frente|podes ir em frente|pode avançar
podes avançar|pode prosseguir|podes prosseguir|pode continuar|pode seguir|pode confirmar
podes confirmar|pode crer|tá|tá bom|ta bom|tá bem|tá certo|tá ok|tá ótimo|está bem|esta bem
está bom|está certo|está correto|está ok|está ótimo|está tudo bem|tá tudo bem|tudo bem|tudo certo
tudo ok|tá joia|tô de acordo|por mim tudo bem|por mim pode|por mim sim|certo|certíssimo|correto
com certeza|com certeza que sim|sem dúvida|sem dúvidas|lógico|óbvio|confirmo|confirma|confirmado
eu confirmo|autorizo|eu autorizo|autorizado|aceito|eu aceito|concordo|eu concordo|aprovo|aprovado
de acordo|estou de acordo|combinado|fechado|positivo|afirmativo|beleza|faz|faz isso|faça|faça isso
faz sim|faça sim|faz lá|faz lá isso|manda|mande|manda ver|manda bala|manda sim|vai|vai lá
vai em frente|vá em frente|vai fundo|avança|avance|prossiga|segue em frente|isso|isso mesmo|isso aí
é isso|é isso mesmo|é isso aí|exato|exatamente|perfeito|quero|quero sim|eu quero|força|bora|bora lá
vamos|vamos lá|vamos em frente|então tá|então tá bom|tá bom então|então sim|então pode|sem problema
sem problemas|por que não|por que nao|. não , pode sim .
"""
_ASIDE = """
please|please and thank you|thanks|thank you|thank you very much|thank you so much|thanks a lot
many thanks|thanks very much|cheers|kindly|great|good|very good|perfect|wonderful|excellent|lovely
awesome|cool|nice|sir|ma'am|madam|i'm sure|i am sure|i'm certain|i want that|i want it
i'd like that|i would like that|por favor|se faz favor|faz favor|por gentileza|por obséquio
obrigado|obrigada|muito obrigado|muito obrigada|brigado|brigada|valeu|ótimo|ótima|ótima ideia
excelente|maravilha|senhor|senhora|tenho certeza|estou certo|eu quero isso|quero isso|all good
very well|looks good|looks good to me|. show ,|. show .|joia|you got it|you've got it|we can do that
"""
_REFUSAL = """
no|nope|nah|not|never|neither|nothing|none|without|don't|dont|do not|doesn't|didn't|did not|cannot
can't|cant|can not|won't|wouldn't|shouldn't|mustn't|isn't|aren't|wasn't|stop|cancel|cancelled|abort
wait|hold on|hang on|hold it|later|negative|refuse|refused|decline|deny|denied|reject|rejected
forget it|never mind|nevermind|leave it|skip it|drop it|undo|wrong|rather|no way|of course not
absolutely not|certainly not|definitely not|sure not|i guess not|not yet|not now|enough|halt|hold up
scratch that|scratch it|scrap that|scrap it|forget about it|forget that|take it back|take that back
hold your horses|whoa|perai|para tudo|volta atrás|desiste|changed my mind
mudei de ideia|mudei de ideias|pera aí|não|nao
nunca|jamais|nem|nada|nenhum|nenhuma|cancela|cancele|cancelar|cancelado|pare|pára|parar|parem
para .|para com isso|espera|espere|esperar|peraí|calma|chega|deixa|deixe|depois|negativo|recuso
nego|rejeita|rejeito|esquece|esqueça|errado|ainda|agora não|agora nao|claro que não|claro que nao
com certeza não|com certeza que não|cancela isso|cancele isso|isso não
desisto|sem|melhor não|recusar|rejeitar|negar|nein|nicht|niemals|nie|kein
keine|stopp|non|jamais|arrête|nee|niet|nej|nei|ikke|inte|ei|нет|не|ні|стоп|όχι|hayır|dur|لا|नहीं|아니
아니요|아니오|いいえ|không|tidak|jangan|לא|ไม่|نه|ne|nem|nu
"""
_DOUBT = """
but|if|unless|only|just|instead|except|maybe|perhaps|possibly|actually|change|make it|how|what|who
why|when|where|which|whether|whatever|probably|guess|think|suppose|hmm|hm|um|uh|uhm|er|erm|well
first|before|after|until|said|told|other|another|or|and|versus|less|more|different|yeah right
yeah , right|please correct|correct please|correct , please|as if|let me|give me|moment|second|sec
minute|please confirm|kindly confirm|confirm please|confirm , please
please , confirm|momento|minuto|minutinho|segundo|segundinho|instante|i don't know|i dunno|not sure
i'm not sure|no idea|i have no idea|mas|se|só|somente|apenas|em vez|talvez|acho|na verdade|muda
mude|troca|troque|como|qual|quais|quem|quanto|quanta|quantos|quantas|porque|quando|onde|primeiro
antes|exceto|menos|mais|disse|porém|ou|e|outro|outra|hum|éé|pois sim|tudo bem obrigado
tudo bem obrigada|. tudo bem , obrigado|. tudo bem , obrigada|está tudo bem obrigado
está tudo bem obrigada|. está tudo bem , obrigado|. está tudo bem , obrigada|tá tudo bem obrigado
tá tudo bem obrigada|. tá tudo bem , obrigado|. tá tudo bem , obrigada|tudo certo obrigado
tudo certo obrigada|. tudo certo , obrigado|. tudo certo , obrigada|tudo ok obrigado
tudo ok obrigada|. tudo ok , obrigado|. tudo ok , obrigada|all good thanks|all good thank you
all good , thanks|all good , thank you|very well thanks|very well thank you|very well , thanks
very well , thank you|por favor confirma|confirma por favor
confirma , por favor|por favor , confirma|certo isso|tá certo isso|está certo isso|pode isso
no rush|no hurry|no worries|no pressure|don't worry|dont worry|do not worry|nothing else
sem pressa|sem stress|não tem pressa|não há pressa|não se preocupe|não te preocupes|nada mais
de nada|obrigado tá|obrigada tá|obrigado , tá|obrigada , tá
confirma isso|ah tá|ah , tá|não sei|nao sei|sei lá|não tenho certeza|nao tenho certeza|aber|oder|y
ou|et|und|ma
"""
_GRANTS = """
approve|approved|i approve|i approve it|accept|accepted|i accept|granted|permission granted|proceed
please proceed|you may proceed|you can proceed|go on then|aceito|eu aceito|aprovo|aprovado|autorizo
let's go|let's go ahead|bora|bora lá|vamos|vamos lá|vamos em frente
eu autorizo|autorizado|pode continuar|pode seguir|pode prosseguir|podes prosseguir|prossiga
segue em frente|avança|avance|pode avançar|podes avançar
"""
_GRANTS_HAN = "同意|批准|允许|允許|继续|繼續"
"""Consents that may refer to the subject of the question: "Approve." to "Deny the request?"."""
_WITHHOLDING = """
block|revoke|veto|ban|suspend|freeze|withdraw|withhold|dismiss|disapprove|bloquear|bloqueia|bloqueie
revogar|vetar|suspender|congelar|negar|retirar
"""
_WITHHOLDING_HAN = "阻止|屏蔽|封锁|封鎖|撤销|撤銷|撤回|驳回|駁回|冻结|凍結|禁止|暂停|暫停"
"""Acts that withhold something: a grant may refer to the thing that they withhold."""
_DEMANDS = """
correct|confirm|confirma|accept|i accept|approve|let's go|pode confirmar|podes confirmar|aceito
eu aceito|quero|eu quero|manda|mande|pode mandar|podes mandar|faz|faz lá|faça|avança|avance
pode avançar|podes avançar|pode continuar|pode seguir|vai|manda ver|i want that|i want it
i'd like that|i would like that|quero isso|eu quero isso
"""
"""Consents that are requests if an object follows: "Correct the amount."."""
_LUKEWARM = "fine|that's fine|that is fine"
"""Consents that decline before thanks: "That's fine, thanks."."""
_THANKS = "thanks|thank you|thanks a lot|thank you very much|many thanks|cheers"
_CONSENT_HAN = """
好|好的|好吧|好啊|好呀|好嘞|好哒|好滴|好哇|好的呀|好的呢|好好|好好好|是|是的|是啊|是呀|是的呀|是是是
行|行的|行吧|行啊|行呀|行行行|对|对的|对啊|对呀|对对|对对对|對|對的|對啊|嗯|嗯嗯|嗯嗯嗯|成|成吧
可以|可以的|可以啊|可以呀|可以吧|可以可以|没问题|没问题的|没有问题|沒問題|沒有問題|没错|没错的|沒錯
不错|当然|当然可以|当然好|當然|當然可以|确认|我确认|确认无误|確認無誤|我確認|确定|我确定|我很确定|確定
我確定|同意|我同意|我完全同意|批准|我批准|允许|我允许|允許|我允許|去吧|去做吧|做吧|发吧|發吧|办吧
就这样做|就这样做吧|就这么办|就这么做|就这么定了|就這樣做|要|要的
继续吧|请继续|繼續吧|請繼續|请做|请做吧|那就做吧|那就这样做吧|那好|那好吧|那行|那可以|批准了|必须的|为什么不|為什麼不
"""
_ASIDE_HAN = """
谢谢|谢谢你|谢谢您|多谢|謝謝|謝謝你|多謝|麻烦你|麻烦你了|麻烦您|麻烦您了|麻烦了|麻煩你|麻煩你了|辛苦了
请|請|的|啊|呀|啦|呢
"""
_STARTS_HAN = "好嗯行对對"
"""Single characters that may begin a run, before a longer word of consent."""
_REFUSAL_HAN = """
不|别|別|取消|算了|停|等|没|沒|拒绝|拒絕|以后|以後|待会|待會|晚点|晚點|否|错|錯|唔
慢着|慢著|且慢|住手|打住|反悔|改主意|撤回|撤销|撤銷|やめ|待って|だめ|ダメ
"""
_DOUBT_HAN = """
好不好|行不行|可不可以|是不是|对不对|能不能|要不要|对不起|對不起|不好意思|不知道|不确定|不確定|不一定
吗|嗎|如果|要是|除非|什么|什麼|怎么|怎麼|没关系|沒關係|没事|沒事|不客气|不客氣|不用谢|不用謝|别担心|別擔心
"""
_NEGATORS_HAN = "不没沒别別"


_NEGATORS = "don't|dont|do not|not|never|can't|cannot|can not|won't|não|nao|nunca|nem"
"""Words of refusal that negate the consent directly after them."""
_LINKS = """
a|an|the|to|for|from|of|in|on|at|with|into|i|shall|my|your|this|that|it
o|os|as|à|ao|aos|às|de|da|do|das|dos|para|pra|por|em|na|nas|nos|com
"""
"""Words that need a following word: no repetition ends with one, unlike "Yes, to …"."""
_JOINS = "to|for|from|in|on|at|with|into|à|ao|aos|às|de|da|para|pra|por|em|com"
"""Words that begin a further part of a repetition: "send" … "to Ana"."""
_ARTICLES = "a|an|the|o|os|as"
_ASKERS = "we|me|you|eu|que|posso|devo|podemos|quer|queres|deseja"
"""Words after which a question says what is to be done, besides linking words and pronouns."""
_PRONOUNS = "it|that|this|them|isso|isto"
_NUMBERS = """
two dois duas|three três|four quatro|five cinco|six seis|seven sete|eight oito|nine nove|ten dez
eleven onze|twelve doze|thirteen treze|fourteen catorze|fifteen quinze|sixteen dezesseis
seventeen dezessete|eighteen dezoito|nineteen dezenove|twenty vinte
"""
_TENS = """
thirty trinta|forty quarenta|fifty cinquenta|sixty sessenta|seventy setenta|eighty oitenta
ninety noventa
"""
_SHIFTS = """
today|tomorrow|tonight|yesterday|now|soon|morning|afternoon|evening|noon|midnight|night|day|days
week|weeks|month|months|year|years|hour|hours|minutes|weekend|weekly|daily|monthly|yearly|monday
tuesday|wednesday|thursday|friday|saturday|sunday|next|last|every|each|always|again|once|twice
times|double|triple|until|till|while|during|by|since|as|when|provided|assuming|hoje|amanhã|amanha
ontem|agora|logo|já|cedo|manhã|tarde|noite|dia|dias|semana|semanas|mês|mes|meses|ano|anos|hora|horas
minutos|terça|quarta|quinta|sexta|sábado|sabado|domingo|feira|próximo|próxima|proximo|proxima|cada
todo|toda|sempre|vez|vezes|dobro|metade|até|ate|desde|enquanto|caso|quando
"""
"""Words of time, frequency and condition. A yes with one of them may set its own condition, so a
yes may not repeat them."""
_NEGATIVE = "false|null|0|0.0"
"""Values beside which the name of an argument, repeated alone, means the opposite."""
_NEGATIVE_TEXTS = """
off|no|none|never|nothing|disabled|disable|false|null|0|without|hidden|desligado|desligada|não|nao
nenhum|nenhuma|nunca|nada|falso|falsa
"""
"""The same, if they are the whole text."""
_PAUSES = ".,:;?()"
_HESITATIONS = "um|uh|uhm|er|erm|hm|hmm|well|and|just|hum|éé|e|y|et|und"
"""Words of doubt that have no meaning beside the name of an option."""
_CHOOSING = """
i'd|i'll|i'm|like|would|want|take|choose|pick|prefer|have|give|me|get|one|option|choice|number|is
let's|go|will|eu|quero|queria|prefiro|escolho|gostaria|ser|opção|número|um|uma
"""
"""Words that express a choice, beside the name of an option."""
_CHOOSING_HAN = "我要选選想的那个個来來一号號就用给給吧请請"
_CUT = "\u2026"
"""Marks a cut in a text, or a hesitation."""
_SPACES = " \t\r\n_"
_LARGE = "one|hundred|thousand|million|billion|half|cem|cento|mil|milhão|milhões|meio|meia"


class Meaning(StrEnum):
    """The meaning of an answer to a yes-or-no question."""

    YES = "yes"
    NO = "no"
    DOUBTFUL = "doubtful"


class _Kind(StrEnum):
    """The effect of a word or phrase on an answer."""

    CONSENT = "consent"
    ASIDE = "aside"
    REFUSAL = "refusal"
    DOUBT = "doubt"
    UNKNOWN = "unknown"


_WORDS = {
    _Kind.CONSENT: _CONSENT,
    _Kind.ASIDE: _ASIDE,
    _Kind.REFUSAL: _REFUSAL,
    _Kind.DOUBT: _DOUBT,
}
_HAN = {
    _Kind.CONSENT: _CONSENT_HAN,
    _Kind.ASIDE: _ASIDE_HAN,
    _Kind.REFUSAL: _REFUSAL_HAN,
    _Kind.DOUBT: _DOUBT_HAN,
}


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase of an answer: its words, and their effect."""

    words: tuple[str, ...]
    kind: _Kind


def judge(
    text: str, question: str = "", texts: Sequence[str] = (), *, lends: bool = True
) -> Meaning:
    """Return whether an answer to a yes-or-no question means yes, no or neither.

    Args:
        text: The spoken or typed answer.
        question: The question. A yes may repeat its words, but not change them.
        texts: The texts in the question that are data, such as a message to be sent. A yes may
            repeat one only in full and after another word of the question, as in "to Ana".
        lends: Whether a yes may repeat words of the question at all.

    Example:
        >>> [judge(text).value for text in ("Yes, do it.", "No, don't!", "Yes, but not now.")]
        ['yes', 'no', 'doubtful']
        >>> [judge(text, "Send 20 euros to Ana?").value for text in ("Yes, to Ana", "Yes, to Ben")]
        ['yes', 'doubtful']
        >>> judge("Yes, see you.", "Send see you tomorrow?", ["see you tomorrow"]).value
        'doubtful'
        >>> [judge(text).value for text in ("Pode sim.", "不行", "好的", "Okay, nein.")]
        ['yes', 'no', 'yes', 'doubtful']
    """
    words = list(_words(text))
    said = list(_pieces(words))
    pieces = [piece for piece in said if piece.words not in {(".",), (",",)}]
    kinds = {piece.kind for piece in pieces}
    if _Kind.CONSENT not in kinds:
        return Meaning.NO if _Kind.REFUSAL in kinds else Meaning.DOUBTFUL
    if words[-2] == "," or not kinds.isdisjoint({_Kind.REFUSAL, _Kind.DOUBT}):
        return Meaning.DOUBTFUL
    if any(map(_is_grant, pieces)) and _asks_to_refuse(question, texts):
        return Meaning.DOUBTFUL
    if any(_is_demand(piece, after, question, texts) for piece, after in pairwise(said)):
        return Meaning.DOUBTFUL
    if _Kind.UNKNOWN in kinds and not (lends and _repeats(pieces, question, texts)):
        return Meaning.DOUBTFUL
    return Meaning.YES


def refuses(text: str) -> bool:
    """Return whether any part of a text refuses.

    Example:
        >>> [refuses(text) for text in ("Okay, stop right now!", "No worries.", "Thank you.")]
        [True, False, False]
    """
    return any(
        piece.kind is _Kind.REFUSAL or _refuses_han(piece.words[0])
        for piece in _pieces(list(_words(text, len(text))))
    )


def spoken_words(text: str) -> list[str]:
    """Return the words and signs of a text, with numbers as digits and Chinese by character."""
    each = (list(word) if _script(word[0]) == "han" else [_number(word)] for word in _words(text))
    return [word for words in each for word in words][1:-1]


def is_firm(words: Sequence[str], *, is_whole: bool = False) -> bool:
    """Return whether the words contain no refusal, doubt, question or condition.

    With `is_whole`, the words contain nothing but the choice, so that no word may be unknown.
    """
    lexicon, joined = _lexicon(), [*words[:1]]
    for before, word in pairwise(words):
        if _script(before[0]) == _script(word[0]) == "han":
            joined[-1] += word
        else:
            joined.append(word)
    turned = {_Kind.REFUSAL, _Kind.DOUBT} | ({_Kind.UNKNOWN} if is_whole else set())
    plain = lexicon.hesitations | lexicon.choosing
    return all(
        piece.kind not in turned
        or plain.issuperset(piece.words)
        or set(piece.words[0]).issubset(_CHOOSING_HAN)
        or (piece.kind is _Kind.UNKNOWN and is_number(piece.words[0]))
        for piece in _pieces(joined)
    )


# --- words ---------------------------------------------------------------------------------------


def _words(text: str, most: int = _LONGEST) -> Iterator[str]:
    """Yield the words of a text, "." and "," for pauses, and each other sign by itself."""
    plain = unicodedata.normalize("NFKC", text[: most + 1]).casefold()
    if len(plain) > most:  # also if one character has become several
        plain = plain[:most] + _CUT
    plain = plain.translate(_same_signs()).replace("..", _CUT).replace("!", ".").strip(_SPACES)
    word, of = "", ""
    yield "."
    for before, sign, after in zip(" " + plain, plain, plain[1:] + " ", strict=False):
        script = "letter" if _is_inside(before, sign, after) else _script(sign)
        if word and script != of:
            yield word
            word = ""
        if script:
            word, of = word + sign, script
        elif sign not in _SPACES:
            yield "," if sign == "-" else sign
    if word:
        yield word
    yield "."


@functools.cache
def _same_signs() -> dict[int, int]:
    return str.maketrans("\u2019\u02bc\u3002\u3001\u2013\u2014", "''.,,,")


def _script(sign: str) -> str:
    """Return the kind of script of a character: "han" needs no spaces between words."""
    if "\u3040" <= sign <= "\u30ff" or "\u3400" <= sign <= "\u9fff":
        return "han"
    return "letter" if sign.isalnum() or unicodedata.category(sign)[0] == "M" else ""


def _is_inside(before: str, sign: str, after: str) -> bool:
    """Return whether a sign belongs to the word around it: "don't", "1,500", "-20", "a.txt"."""
    if sign == ",":
        return before.isdecimal() and after.isdecimal()
    if sign == "-":
        return before in _SPACES and after.isdecimal()
    return sign in {"'", "."} and _script(before) == _script(after) == "letter"


# --- phrases -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lexicon:
    """The tables, built when the first answer is judged."""

    phrases: Mapping[tuple[str, ...], _Kind]
    longest: int
    han: Mapping[str, _Kind]
    longest_han: int
    consents_han: tuple[str, ...]
    refusals_han: tuple[str, ...]
    harmless_han: re.Pattern[str]
    numbers: Mapping[str, str]
    large: frozenset[str]
    grants: frozenset[tuple[str, ...]]
    demands: frozenset[tuple[str, ...]]
    withholding: frozenset[str]
    negators: frozenset[tuple[str, ...]]
    links: frozenset[str]
    joins: frozenset[str]
    articles: frozenset[str]
    pronouns: frozenset[str]
    before_acts: frozenset[str]
    shifts: frozenset[str]
    negative: frozenset[str]
    negative_texts: frozenset[str]
    hesitations: frozenset[str]
    choosing: frozenset[str]


@functools.cache
def _lexicon() -> _Lexicon:
    phrases = {
        tuple(said.split()): kind
        for kind, each in _named(_WORDS)
        # A transcription may mark a pause as the end of a sentence: "Fine. Thanks."
        for said in ({each, each.replace(" , ", " . ")} if kind is _Kind.DOUBT else {each})
    }
    han = {each: kind for kind, each in _named(_HAN)}
    numbers = {
        word: str(number)
        for start, step, text in ((2, 1, _NUMBERS), (30, 10, _TENS))
        for index, same in enumerate(_phrases(text))
        for number in (start + step * index,)
        for word in same.split()
    }
    for fine, thanks in product(_phrases(_LUKEWARM), _phrases(_THANKS)):
        for declined in (f"{fine} {thanks}", f". {fine} , {thanks}", f". {fine} . {thanks}"):
            phrases[tuple(declined.split())] = _Kind.DOUBT
    return _Lexicon(
        phrases=phrases,
        longest=max(map(len, phrases)),
        han=han,
        longest_han=max(map(len, han)),
        refusals_han=tuple(_phrases(_REFUSAL_HAN)),
        consents_han=tuple(sorted(_phrases(_CONSENT_HAN), key=len, reverse=True)),
        harmless_han=re.compile(
            "|".join(sorted(_phrases(_CONSENT_HAN + _DOUBT_HAN), key=len, reverse=True))
        ),
        numbers=numbers,
        large=frozenset(_phrases(_LARGE)),
        grants=frozenset(tuple(each.split()) for each in _phrases(_GRANTS)),
        demands=frozenset(tuple(each.split()) for each in _phrases(_DEMANDS)),
        withholding=frozenset(_phrases(_WITHHOLDING)),
        negators=frozenset(tuple(each.split()) for each in _phrases(_NEGATORS)),
        links=frozenset(_phrases(_LINKS)),
        joins=frozenset(_phrases(_JOINS)),
        articles=frozenset(_phrases(_ARTICLES)),
        pronouns=frozenset(_phrases(_PRONOUNS)),
        before_acts=frozenset(_phrases(f"{_ASKERS}|{_LINKS}{_PRONOUNS}")),
        shifts=frozenset(_phrases(_SHIFTS)),
        negative=frozenset(_phrases(_NEGATIVE)),
        negative_texts=frozenset(_phrases(_NEGATIVE_TEXTS)),
        hesitations=frozenset(_phrases(_HESITATIONS)),
        choosing=frozenset(_phrases(f"{_CHOOSING}{_LINKS}{_PRONOUNS}")),
    )


def _named(tables: Mapping[_Kind, str]) -> Iterator[tuple[_Kind, str]]:
    return ((kind, each) for kind, text in tables.items() for each in _phrases(text))


def _phrases(text: str) -> list[str]:
    return [each for line in text.split("\n") for each in line.split("|") if each]


def _pieces(words: Sequence[str]) -> Iterator[_Phrase]:
    """Yield the phrases of an answer, longest first, and a negated consent as a refusal."""
    negators = _lexicon().negators
    negated = False
    for piece in _found(words):
        if negated and piece.kind is _Kind.CONSENT:
            yield _Phrase(piece.words, _Kind.REFUSAL)
        else:
            yield piece
        negated = piece.words in negators or piece.words[-1:] in negators  # "why not accept"


def _found(words: Sequence[str]) -> Iterator[_Phrase]:
    lexicon = _lexicon()
    start = 0
    while start < len(words):
        for length in range(min(lexicon.longest, len(words) - start), 0, -1):
            phrase = tuple(words[start : start + length])
            if phrase in lexicon.phrases:
                yield _Phrase(phrase, lexicon.phrases[phrase])
                break
        else:
            length = 1
            yield _Phrase((words[start],), _kind_of(words, start))
        start += length


def _kind_of(words: Sequence[str], place: int) -> _Kind:
    """Return the effect of a word or sign that is in no table of words."""
    word = words[place]
    if _script(word[0]) == "han":
        return _kind_of_han(word)
    if word in {".", ","}:
        return _Kind.ASIDE
    return _Kind.UNKNOWN if _script(word[0]) else _Kind.DOUBT


def _kind_of_han(run: str) -> _Kind:
    """Return the effect of a run of Chinese characters; a run is consent only as a whole."""
    lexicon = _lexicon()
    said = list(_found_han(run))
    if _Kind.UNKNOWN not in said:
        asks = said[0] is _Kind.ASIDE  # "麻烦你确认" asks for a confirmation
        is_consent = _Kind.CONSENT in said
        return (_Kind.DOUBT if asks else _Kind.CONSENT) if is_consent else _Kind.ASIDE
    if any(each in run for each in _phrases(_DOUBT_HAN)):
        return _Kind.DOUBT
    if not any(each in run for each in _lexicon().refusals_han):
        return _Kind.UNKNOWN
    for negated in (negator + each for each in lexicon.consents_han for negator in _NEGATORS_HAN):
        run = run.replace(negated, "|")
    return _Kind.DOUBT if any(each in run for each in lexicon.consents_han) else _Kind.REFUSAL


def _refuses_han(run: str) -> bool:
    """Return whether a run of Chinese refuses, apart from its words of consent and doubt."""
    if _script(run[0]) != "han":
        return False
    left = _lexicon().harmless_han.sub("|", run)
    return any(each in left for each in _lexicon().refusals_han)


def _found_han(run: str) -> Iterator[_Kind]:
    """Yield the effect of each phrase in a run, ending with `UNKNOWN` at the first unknown part."""
    lexicon = _lexicon()
    start = 0
    while start < len(run):
        for length in range(min(lexicon.longest_han, len(run) - start), 0, -1):
            phrase = run[start : start + length]
            is_word = length > 1 or run == phrase or (start == 0 and phrase in _STARTS_HAN)
            is_word = is_word and (phrase[-1] not in _NEGATORS_HAN or start + length == len(run))
            kind = lexicon.han.get(phrase)
            if is_word and kind in {_Kind.CONSENT, _Kind.ASIDE}:
                yield kind
                break
        else:
            yield _Kind.UNKNOWN
            return
        start += length


# --- words of the question -----------------------------------------------------------------------


def _repeats(pieces: Sequence[_Phrase], question: str, texts: Sequence[str]) -> bool:
    """Return whether the unknown words of an answer repeat parts of the question unchanged."""
    asked, own = _lent(question, texts), _plain_words(question)
    consents = [piece for piece in pieces if piece.kind is _Kind.CONSENT]
    if all(set(piece.words).issubset(own) for piece in consents):
        return False  # "Confirm the order" may be the request itself
    lexicon = _lexicon()
    place, before, is_bound = -1, "", False
    places: set[int] = set()
    objects = _objects(question)
    for piece, after in pairwise([*pieces, _Phrase((".",), _Kind.ASIDE)]):
        word = _number(piece.words[0])
        binds = word in lexicon.articles and after.kind is _Kind.UNKNOWN
        if piece.kind is _Kind.UNKNOWN and not binds:
            follows = before not in lexicon.pronouns | {""} and _begins_act(asked, places, place)
            place = _next(asked, word, place, follows=follows)
            is_twice = place in places and word not in lexicon.pronouns
            if place < 0 or is_twice or word in lexicon.shifts:
                return False
            if word in objects and not (is_bound or place in places or place - 1 in places):
                return False  # "Sure, chat with Ana" may be the request itself
            places.add(place)
        before = piece.words[0] if piece.kind is _Kind.UNKNOWN else ""
        is_bound = binds
    if place < 0 or not _may_end(asked, place) or not _is_clear(asked, places, texts):
        return False
    is_part = place - 1 in places or is_number(asked[place])  # "Right, the order" is none
    return _begins_act(asked, places, place) or (is_part and not _is_value(asked, place + 1, texts))


def _objects(question: str) -> set[str]:
    """Return the words that follow what is to be done, such as "order" in "delete the order, …"."""
    lexicon = _lexicon()
    words = [each for each in _words(question) if each not in lexicon.articles]
    return {
        word
        for before, word in pairwise(words)
        if before not in lexicon.before_acts and _script(before[-1]) == "letter"
    } - {word for word in words if word in lexicon.joins or is_number(word)}


def _begins_act(asked: Sequence[str], places: set[int], place: int) -> bool:
    """Return whether the words repeated up to a place begin with what is to be done.

    "Order it" of "Shall I do this: delete order" does not, and asks for something else.
    """
    while place - 1 in places:
        place -= 1
    return place <= 0 or asked[place - 1] in _lexicon().before_acts


def _is_value(asked: Sequence[str], place: int, texts: Sequence[str]) -> bool:
    """Return whether a value begins at a place, which "Right, the amount" leaves out."""
    values = filter(None, map(_plain_words, texts))
    return any(map(is_number, asked[place : place + 1])) or any(
        list(asked[place : place + len(value)]) == value for value in values
    )


def _is_clear(asked: Sequence[str], places: set[int], texts: Sequence[str]) -> bool:
    """Return whether a repetition can mean only the question.

    The repetition must not be a part of a text, or one number of several.
    """
    starts = _numbers_in(asked)
    if len(starts) > 1 and any(at in places and at - 1 not in places for at in starts):
        return False
    for text in filter(None, map(_plain_words, texts)):
        for start in range(len(asked) - len(text) + 1):
            within = range(start, start + len(text))
            if list(asked[start : start + len(text)]) != text or places.isdisjoint(within):
                continue
            if start - 1 not in places or not places.issuperset(within):
                return False
    return True


def _numbers_in(asked: Sequence[str]) -> list[int]:
    """Return the indexes at which numbers begin; "twenty five" is one number."""
    are = [is_number(word) for word in asked]
    return [at for at, each in enumerate(are) if each and not (at and are[at - 1])]


def _lent(question: str, texts: Sequence[str]) -> list[str]:
    """Return the words that a yes may repeat: none if repeating them could reverse its meaning.

    If a question contains "not", "or" or "only" outside of its texts, repeating a part of it can
    mean the opposite. So can the name of an argument, such as "encrypt" of "encrypt false".
    """
    words = list(_words(question))
    turns = any(
        piece.kind in {_Kind.REFUSAL, _Kind.DOUBT} and _script(piece.words[0][0]) == "letter"
        for piece in _pieces(_without_texts(words, texts))
    )
    if turns or _CUT in words or not set(question).isdisjoint(_NEGATORS_HAN):
        return []
    return _without_negative(words, texts)


def _is_demand(piece: _Phrase, after: _Phrase, question: str, texts: Sequence[str]) -> bool:
    """Return whether a phrase asks for something that the question does not ask about."""
    if piece.words not in _lexicon().demands or after.kind is not _Kind.UNKNOWN:
        return False
    return piece.words[-1] not in _without_texts(list(_words(question)), texts)


def _is_grant(piece: _Phrase) -> bool:
    """Return whether a consent may refer to the subject of a question."""
    return piece.words in _lexicon().grants or _has_any(_GRANTS_HAN, piece)


def _asks_to_refuse(question: str, texts: Sequence[str]) -> bool:
    """Return whether the subject of a question is a refusal, such as "deny request"."""
    words, withholding = _without_texts(list(_words(question)), texts), _lexicon().withholding
    return any(
        piece.kind is _Kind.REFUSAL
        or not withholding.isdisjoint(piece.words)
        or _has_any(f"{_WITHHOLDING_HAN}|{_REFUSAL_HAN.strip()}", piece)
        for piece in _pieces(words)
    )


def _has_any(table: str, piece: _Phrase) -> bool:
    """Return whether a run of Chinese contains a word of a table."""
    return any(each in piece.words[0] for each in _phrases(table))


def _without_negative(words: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the words between signs, with "|" in place of an argument whose value is negative."""
    lexicon = _lexicon()
    texts = [word for text in texts for word in [*_words(text)][1:-1]]
    values = lexicon.negative | lexicon.negative_texts.intersection(texts)
    lent: list[str] = []
    start = 0
    for at, word in enumerate(words):
        if word in _PAUSES:
            argument = words[start:at]
            lent += ["|"] if argument and argument[-1] in values else _without_signs(argument)
            start = at + 1
    return lent


def _without_texts(words: Sequence[str], texts: Sequence[str]) -> list[str]:
    left = list(words)
    for text in texts:
        within = list(_words(text))[1:-1]
        starts = range(len(left) - len(within) + 1) if within else ()
        at = next((each for each in starts if left[each : each + len(within)] == within), None)
        if at is not None:
            left[at : at + len(within)] = [","]  # a "." would end a sentence: "para ." is "stop."
    return left


def _plain_words(text: str) -> list[str]:
    return _without_signs(_words(text))


def _without_signs(words: Iterable[str]) -> list[str]:
    """Return the words of letters and digits, with numbers as digits and without articles."""
    articles = _lexicon().articles
    letters = (word for word in words if _script(word[-1]) == "letter" and word not in articles)
    return [_number(word) for word in letters]


def _next(asked: Sequence[str], word: str, place: int, *, follows: bool) -> int:
    """Return the index of the word of the question that `word` repeats; -1 for none.

    `place` is the index of the last repeated word, or -1. `follows` is true if `word` directly
    follows a repeated word in the answer.
    """
    lexicon = _lexicon()
    if place >= 0:
        if asked[place + 1 : place + 2] == [word]:
            return place + 1
        if follows and word in lexicon.pronouns:  # "send it"
            return place
        begins = word in lexicon.joins or (is_number(word) and len(_numbers_in(asked)) == 1)
        if not begins or not _may_end(asked, place):
            return -1
    if word in asked[place + 1 :]:
        found = asked.index(word, place + 1)
    elif asked.count(word) == 1:  # an earlier part of the question: "20 to Ana"
        found = asked.index(word)
    else:
        return -1
    is_inside_number = found > 0 and is_number(word) and is_number(asked[found - 1])
    return -1 if is_inside_number else found


def _may_end(asked: Sequence[str], place: int) -> bool:
    """Return whether a repetition may end here: not after a linking word or inside a number."""
    if asked[place] in _lexicon().links:
        return False
    following = asked[place + 1 : place + 2]
    return not (is_number(asked[place]) and any(map(is_number, following)))


def _number(word: str) -> str:
    return _lexicon().numbers.get(word, word)


def is_number(word: str) -> bool:
    """Return whether a word is a number or a part of one."""
    return word in _lexicon().large or any(map(str.isdigit, word))
