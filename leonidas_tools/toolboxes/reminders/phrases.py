"""Words and patterns of times in English, Portuguese and Chinese.

The patterns match lower-case text without accents, with digits instead of number words.
"""

from __future__ import annotations

import re
import unicodedata

UNITS = {
    "second": r"seconds?|segundos?|secs?|s\b|秒钟?",
    "minute": r"minutes?|minutos?|mins?|分钟|分",
    "hour": r"hours?|hrs?|horas?|h\b|个?小时|个?钟头",
    "day": r"days?|dias?|天|日",
    "week": r"weeks?|semanas?|个?星期|周|个?礼拜",
    "month": r"months?|mes(?:es)?\b|个月|月",
    "year": r"years?|anos?|年",
}
UNIT = f"(?:{'|'.join(f'(?:{words})' for words in UNITS.values())})(?![a-z])"
NUMBER = r"\d+(?:[.,](?:\d|25|75))?"  # 2.30 may be two hours and a half, and 1,000 a thousand
AMOUNT = rf"(?:{NUMBER}\s*(?:{UNIT}))"
SHORT_UNIT = (
    r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|segundos?|minutos?)\b|"
    r"秒钟?|分钟|个?(?:小时|钟头)"
)
"""Units of a span that may stand alone: `duas horas` may be a time, and `one day` some day."""
SPAN = rf"{AMOUNT}(?:(?:\s*,\s*|\s*and\s+|\s*e\s+|\s*零?\s*){AMOUNT})*"
OFFSETS = (
    rf"\b(?:in|after|within|daqui a|daqui|dentro de|em)\s+(?P<span>{SPAN})",
    rf"(?P<span>{SPAN})\s*(?:from now|later|以后|之后|后)",
    rf"^\s*过?(?P<span>(?:{NUMBER}\s*(?:{SHORT_UNIT})\s*(?:and )?)+)\s*$",
)

WEEKDAYS = (
    r"mondays?\b|mon\b|segundas?(?:-| )feiras?|segundas?\b",
    r"tuesdays?\b|tues?\b|tercas?(?:-| )feiras?|tercas?\b",
    r"wednesdays?\b|wed\b|quartas?(?:-| )feiras?|quartas?\b",
    r"thursdays?\b|thu(?:rs?)?\b|quintas?(?:-| )feiras?|quintas?\b",
    r"fridays?\b|fri\b|sextas?(?:-| )feiras?|sextas?\b",
    r"saturdays?\b|sat\b|sabados?\b",
    r"sundays?\b|sun\b|domingos?\b",
)
CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
WEEKDAY = "|".join(f"(?:{words})" for words in WEEKDAYS)
HAN_WEEK = r"(?:周|星期|礼拜)"
HAN_DAYS = "123456日天"

MONTHS = (
    r"january|jan|janeiro",
    r"february|feb|fevereiro|fev",
    r"march|mar|marco",
    r"april|apr|abril|abr",
    r"may|maio",
    r"june|jun|junho",
    r"july|jul|julho",
    r"august|aug|agosto|ago",
    r"september|sept|sep|setembro|set",
    r"october|oct|outubro|out",
    r"november|nov|novembro",
    r"december|dec|dezembro|dez",
)
MONTH = "|".join(f"(?:{words})" for words in MONTHS)

DAYS = (
    (r"大后天", 3),
    (r"\b(?:the )?day after tomorrow\b|\bdepois de amanha\b|后天", 2),
    (r"\btomorrow\b|\bamanha\b|明天|明日|明(?=早|晚|上午|下午|中午)", 1),
    (
        (
            r"\btoday\b|\bhoje\b|\bthis(?= (?:morning|afternoon|evening)\b)|"
            r"\besta(?= (?:manha|tarde|noite)\b)|今天|今日|今(?=早|晚|上午|下午|中午)"
        ),
        0,
    ),
)
_IN = r"\b(?:(?:in the|at|this|pela|pelas|de|da|na|a|ao|esta) )?"
PARTS = (
    ("midnight", rf"{_IN}(?:midnight|meia[- ]noite)\b|午夜|半夜"),
    ("small hours", rf"{_IN}madrugada\b|凌晨"),
    ("morning", rf"{_IN}(?:mornings?|manhas?)\b|早上|上午|早晨|清晨|早"),
    ("noon", rf"{_IN}(?:noon|midday|meio[- ]dia)\b|中午|正午"),
    ("afternoon", rf"{_IN}(?:afternoons?|tardes?)\b|下午"),
    ("evening", rf"{_IN}evenings?\b|傍晚"),
    ("tonight", rf"{_IN}tonight\b|晚上|晚"),
    ("night", rf"{_IN}(?:nights?|noites?)\b|夜里|夜晚"),
)
PART_TIMES = {
    "morning": (9, 0),
    "noon": (12, 0),
    "afternoon": (15, 0),
    "evening": (19, 0),
    "tonight": (19, 0),
    "night": (21, 0),
    "small hours": (3, 0),
    "midnight": (0, 0),
}
PART_HOURS = {
    "morning": range(1, 12),
    "noon": range(11, 15),
    "afternoon": range(12, 21),
    "evening": range(16, 24),
    "tonight": (*range(17, 24), *range(5)),
    "night": (*range(17, 24), *range(5)),
    "small hours": range(7),
    "midnight": (23, *range(5)),
}
"""Hours of each part of the day: no two that a clock of twelve hours calls the same."""

UNCLEAR = (
    r"^\s*\d+ horas?(?: e \d+)?\s*$|"
    r"(?<![今明每])[早晚快慢]1点|"
    r"\bfrom\b(?! monday (?:to|through) friday\b).*\b(?:to|until|till|through)\b|"
    r"\b(?:between|entre)\b|\bdas? \d.*\b(?:as|ate)\b|"
    r"\d[点时]?\d*分?(?:到|至|-|~)(?:[上下]午|晚上)?\d"
)
"""Ranges, hours that are a time or a span, and "later" in Chinese, which looks like one o'clock."""

NTH = (
    (1, r"\b(?:1st|first|primeira|primeiro) |第1个?"),
    (2, r"\b(?:2nd|second|segunda|segundo) |第2个?"),
    (3, r"\b(?:3rd|third|terceira|terceiro) |第3个?"),
    (4, r"\b(?:4th|fourth|quarta|quarto) |第4个?"),
    (-1, r"\b(?:last|ultima|ultimo) |最后1?个?"),
)
"""Words before the weekday that is counted in a month."""
LAST_DAY = (
    r"\blast day\b|\bend of(?= (?:the |this |next )?month\b)|\bultimo dia\b|"
    r"\b(?:fim|final)(?= d(?:o|este) (?:proximo )?mes\b)|最后1天|底|末"
)
NEXT_MONTH = r"\b(?:of |in )?next month\b|\b(?:[dn]o )?(?:proximo mes|mes que vem)\b|下个?月"
THIS_MONTH = r"\b(?:the|this) month\b|\b(?:do|deste|neste|este|no) mes\b|(?<!\d)(?:这个?|本|当)?月"
NAMED_MONTH = rf"\b(?P<name>{MONTH})\b(?:,? (?:de )?(?P<year>\d{{4}})\b)?|(?P<month>\d{{1,2}})月"
DAY_OF_MONTH = (
    r"\b(?:on )?(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)\b",
    r"\b(?:no )?dias? (?P<day>\d{1,2})\b",
    r"(?P<day>\d{1,2})[号日]",
)

_AT = r"(?:\b(?:at|by|around|as|a|pelas|para as)\s+)?"
CLOCKS = (
    rf"{_AT}half past (?P<half>\d{{1,2}})\b",
    (
        rf"{_AT}(?:a )?(?P<quarter>quarter|5|10|20|25|\d{{1,2}} minutes)"
        rf" (?P<side>past|to|before|after) (?P<hour>\d{{1,2}})\b"
    ),
    r"\b(?P<until>\d{1,2})(?: minutos)? para (?:as|a) (?P<hour>\d{1,2})\b",
    rf"{_AT}(?P<hour>\d{{1,2}}) menos (?P<until>\d{{1,2}})\b",
    (
        rf"{_AT}(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?::\d{{2}})?\s*"
        r"(?P<suffix>a\.?m\b\.?|p\.?m\b\.?)?(?:\s*h(?:oras)?\b)?"
    ),
    rf"{_AT}(?P<hour>\d{{1,2}})\s*(?P<formal>h)(?P<minute>\d{{2}})?\b(?: e (?P<halves>meia)\b)?",
    (
        rf"{_AT}(?P<hour>\d{{1,2}})(?:\s*horas?)? e (?:(?P<halves>meia)|(?P<minute>\d{{1,2}}))\b"
        r"(?: minutos)?"
    ),
    rf"{_AT}(?P<hour>\d{{1,2}})\s*(?P<suffix>a\.?m\b\.?|p\.?m\b\.?)",
    rf"{_AT}(?P<hour>\d{{1,2}})\s*(?:o ?'? ?clock|horas?)\b",
    r"(?P<hour>\d{1,2})\s*[点點时時](?:(?P<halves>半)|(?P<quarters>[13])刻|钟|整|零?(?P<minute>\d{1,2})分?)?",
    r"\b(?:at|by)\s+(?P<hour>\d{1,2})\s+(?P<minute>\d{2})\b",
    r"\b(?:at|by|around|as|a|pelas)\s+(?P<hour>\d{1,2})\b",
)

EMPTY = re.compile(
    r"\b(?:at|on|the|of|in|by|for|from|this|coming|starting|o|a|as|os|ao|aos|de|do|da|das|dos|no|"
    r"na|em|e|and|proxim[oa]|que vem|dia|date)\b|[的在于。、,.!?~]|点钟"
)

_TENS_EN = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50}
_TENS_PT = {"vinte": 20, "trinta": 30, "quarenta": 40, "cinquenta": 50}
_ENGLISH = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen
"""
_PORTUGUESE = """
um dois tres quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis
dezessete dezoito dezenove
"""
_SMALL = {
    **{word: number for number, word in enumerate(_ENGLISH.split(), 1)},
    **{word: number for number, word in enumerate(_PORTUGUESE.split(), 1)},
    "uma": 1, "duas": 2, "quatorze": 14, "dezasseis": 16, "dezassete": 17, "dezanove": 19,
}  # fmt: skip
_TENS = {**_TENS_EN, **_TENS_PT, "sixty": 60, "ninety": 90, "sessenta": 60, "noventa": 90}
_HAN = {char: number for number, char in enumerate("零一二三四五六七八九")} | {"两": 2, "\u3007": 0}

_SIMPLIFIED = str.maketrans(
    "兩後點鐘週禮這時過幾號個淩裡裏從與隔間頭當", "两后点钟周礼这时过几号个凌里里从与隔间头当"
)
"""Traditional characters in phrases of time, and the simplified ones."""
_DIGITS = "".join(_HAN)
_COUNTED = tuple("个天分小周年月点秒刻钟号日时")

_REWRITTEN = (
    (
        (
            r"\b(in|after|em|daqui a|dentro de) (\d+) ?h(?:ours?|oras?|rs?)? ?(?:e )?"
            r"(\d{1,2}) ?(?:m|min(?:ute|uto)?s?)?(?!\w)"
        ),
        r"\1 \2 hours \3 minutes",
    ),
    (r"\b(?:an?|1) hour and a half\b|\b1(?: and a half| 1/2) hours?\b", "90 minutes"),
    (r"\b(\d+) hours and a half\b|\b(\d+) and a half hours\b", r"\1\2 hours 30 minutes"),
    (r"\b(?:a )?half (?:an |a )?hour\b|\bhalf-hour\b", "30 minutes"),
    (r"\b(?:a |1 )?quarter (?:of )?an hour\b|\ba quarter hour\b", "15 minutes"),
    (r"\b(?:3 )quarters of an hour\b", "45 minutes"),
    (r"\b(?:1 )?hora e meia\b", "90 minutos"),
    (r"\b3 quartos de hora\b", "45 minutos"),
    (r"\be 1 quarto\b", "e 15"),
    (r"\bmenos (?:1 )?quarto\b", "menos 15"),
    (r"\b1 quarto(?= para\b)", "15"),
    (r"\bprimeiro(?= de\b)", "1"),
    (rf"\bfirst (?:of )?(?={MONTH}\b)", "1st of "),
    (r"\btonight at midnight\b", "today at midnight"),
    (r"\b(?:today )?tonight\b", "today tonight"),
    (r"半年", "6个月"),
    (r"\b(\d+) horas e meia\b(?! (?:da|de|na|a) )", r"\1 horas 30 minutos"),
    (r"\bmeia hora\b", "30 minutos"),
    (r"\b1 quarto de hora\b", "15 minutos"),
    (r"\ban? (hour|minute|second|day|week|month|year)\b", r"1 \1"),
    (r"(?<=weeks)'? time\b|(?<=days)'? time\b|(?<=months)'? time\b", ""),
    (r"\b(in|after) a couple of (\w+)", r"\1 2 \2"),
    (r"\b(?:a )?fortnight\b", "2 weeks"),
    (r"(\d+)个半(?:小时|钟头)", r"\1小时30分钟"),
    (r"(\d+)(?:小时|钟头)半", r"\1小时30分钟"),
    (r"半个?(?:小时|钟头)", "30分钟"),
    (r"1刻钟", "15分钟"),
    (r"3刻钟", "45分钟"),
    (r"半天(?=后|以后|之后)", "12小时"),
)


def readable(text: str) -> str:
    """Return a text normalized for the patterns.

    Example:
        >>> readable("Amanhã às OITO e meia"), readable("下午三点二十分")
        ('amanha as 8 e meia', '下午3点20分')
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    plain = " ".join(plain.replace("\u2019", "'").translate(_SIMPLIFIED).split())
    plain = re.sub(f"[{_DIGITS}]?十[{_DIGITS}]?|[{_DIGITS}]+", _han_number, plain)
    tens, small = "|".join(_TENS), "|".join(sorted(_SMALL, key=len, reverse=True))
    ones = "|".join(word for word, number in _SMALL.items() if number < 10)  # noqa: PLR2004
    plain = re.sub(
        rf"\b({tens})(?:[ -]| e )({ones})\b", lambda m: str(_TENS[m[1]] + _SMALL[m[2]]), plain
    )
    plain = re.sub(rf"\b({tens})\b", lambda m: str(_TENS[m[1]]), plain)
    plain = re.sub(rf"\b({small})\b", lambda m: str(_SMALL[m[1]]), plain)
    for pattern, written in _REWRITTEN:
        plain = re.sub(pattern, written, plain)
    return plain


def _han_number(found: re.Match[str]) -> str:
    """Return Chinese numerals as digits, such as 15 for the characters of ten and five."""
    text = found[0]
    if re.fullmatch("[^十零]{2}", text) and found.string[found.end() :].startswith(_COUNTED):
        return text  # two or three of them
    if "十" not in text:
        return "".join(str(_HAN[each]) for each in text)
    before, _, after = text.partition("十")
    return str((_HAN[before] if before else 1) * 10 + (_HAN[after] if after else 0))
