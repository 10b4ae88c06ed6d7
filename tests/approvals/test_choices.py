"""A choice that the model reports is one that the user has named, and no other."""

import pytest

from leonidas_tools.approvals.choices import are_chosen, are_numbers_said, options_of

DRINK = {"properties": {"drink": {"enum": ["tea", "coffee", "iced coffee", "none"]}}}
ASKED = "Which drink: tea, coffee, iced coffee or none?"


def chosen(value, *said, schema=DRINK, asked=ASKED):
    name = next(iter(schema["properties"]))
    return are_chosen(schema, {name: value}, said, asked)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Tea.", "tea"),
        ("I'd like a coffee, please.", "coffee"),
        ("An iced coffee", "iced coffee"),
        ("None, thanks.", "none"),
        ("The second one.", "coffee"),
        ("Number three.", "iced coffee"),
        ("Option one, please.", "tea"),
        ("A segunda.", "coffee"),
        ("O terceiro, por favor.", "iced coffee"),
        ("第二个", "coffee"),
        ("选三", "iced coffee"),
        ("Um, tea and tea.", "tea"),
    ],
)
def test_an_option_is_chosen_by_its_words_or_by_its_number_and_then_no_other_is(said, value):
    counted = [each for each, _ in options_of(DRINK["properties"]["drink"]) if chosen(each, said)]
    assert counted == [value]


@pytest.mark.parametrize(
    "said",
    [
        "Yes.",
        "Whatever you like.",
        "You choose.",
        "Not tea.",
        "Tea? No, coffee.",
        "Tea or coffee.",
        "Anything but tea.",
        "Which one?",
        "One second.",
        "A second.",
        "The one with milk.",
        "That one.",
        "The second one is for Bob.",
        "Tea if it is hot.",
        "Não quero tea.",
        "不要 tea",
        "I said nothing.",
        "Teapot.",
        "The fifth.",
        "Two of them.",
        "I hate tea.",
        "She wants tea.",
        "My tea is cold.",
        "他要 tea",
        "",
    ],
)
def test_in_doubt_no_option_is_chosen(said):
    assert [
        each for each, _ in options_of(DRINK["properties"]["drink"]) if chosen(each, said)
    ] == []


def test_beside_a_choice_there_may_be_other_words_only_where_a_text_is_asked_for():
    name = {"properties": {**DRINK["properties"], "name": {"type": "string"}}}
    count = {"properties": {**DRINK["properties"], "count": {"type": "integer"}}}
    for said, schema, counts in (
        ("Tea for Ana.", name, True),
        ("Tea for Ana.", DRINK, False),
        ("Two of them, tea.", count, True),
        ("I'll have the tea, please.", DRINK, True),
        ("Quero a tea, por favor.", DRINK, True),
        ("我要 tea", DRINK, True),
    ):
        given = {"drink": "tea", "name": "Ana"} if schema is name else {"drink": "tea"}
        assert are_chosen(schema, given, [said], ASKED) == counts


def test_a_text_that_the_model_does_not_report_lets_no_other_words_stand_beside_a_choice():
    note = {"type": "string", "default": ""}
    schema = {"properties": {"action": {"enum": ["keep", "delete"]}, "note": note}}
    for given, said, counts in (
        ({"action": "delete", "note": ""}, "Delete is a bad idea.", False),
        ({"action": "delete"}, "My brother would pick delete.", False),
        ({"action": "delete"}, "Delete, please.", True),
        ({"action": "delete", "note": "It is old."}, "Delete, it is old.", True),
    ):
        assert are_chosen(schema, given, [said], "Keep or delete?") == counts


def test_several_utterances_are_one_answer():
    assert chosen("tea", "Hm.", "Tea.")
    assert not chosen("tea", "Tea.", "Coffee.")
    assert not chosen("tea", "Tea.", "No!")
    assert not chosen("coffee", "The second one.", "The first one.")


def test_a_number_counts_only_after_all_options_were_named_in_their_order():
    assert not chosen("coffee", "The second one.", asked="Coffee, or tea?")
    assert not chosen("tea", "One.", asked="Shall I take tea?")
    assert not chosen("tea", "One.", asked="")


def test_options_that_are_numbers_are_named_and_not_counted():
    seats = {"properties": {"seats": {"enum": [2, 4, 6]}}}
    asked = "How many seats: 2, 4 or 6?"
    assert chosen(2, "Two, please.", schema=seats, asked=asked)
    assert chosen(4, "The second.", schema=seats, asked=asked)
    assert not chosen(4, "Two.", schema=seats, asked=asked)
    assert not chosen(2, "Twenty two.", schema=seats, asked=asked)


def test_an_option_is_named_by_its_title_its_beginning_or_its_value():
    way = {
        "oneOf": [{"const": "x1", "title": "Express (two days)"}, {"const": "s", "title": "Sea"}]
    }
    schema = {"properties": {"way": way}}
    assert chosen("x1", "Express.", schema=schema)
    assert chosen("x1", "Express, two days.", schema=schema)
    assert not chosen("x1", "By sea.", schema=schema)
    assert not chosen("s", "Two days.", schema=schema)


def test_a_list_holds_all_that_was_named_and_nothing_else():
    schema = {
        "properties": {"with": {"type": "array", "items": {"enum": ["milk", "sugar", "ice"]}}}
    }
    assert chosen(["milk", "sugar"], "Sugar and milk.", schema=schema)
    assert not chosen(["milk", "sugar"], "Milk.", schema=schema)
    assert not chosen(["milk"], "Milk and sugar.", schema=schema)
    assert not chosen(["milk", "ice"], "No ice, but milk.", schema=schema)


def test_two_choices_of_one_kind_are_distinguished_by_their_order():
    city = {"enum": ["Porto", "Faro"]}
    schema = {"properties": {"from": city, "to": city}}
    said = ["From Porto to Faro."]
    assert are_chosen(schema, {"from": "Porto", "to": "Faro"}, said, "")
    assert not are_chosen(schema, {"from": "Faro", "to": "Porto"}, said, "")
    assert not are_chosen(schema, {"from": "Porto", "to": "Porto"}, said, "")
    assert not are_chosen(schema, {"from": "Faro", "to": "Porto"}, ["To Faro from Porto."], "")
    account = {"properties": {"account": city, "pay_to": city}}
    said = ["Pay to Faro, account Porto."]
    assert not are_chosen(account, {"account": "Faro", "pay_to": "Porto"}, said, "")


def test_a_default_needs_no_words_but_gives_way_to_them():
    schema = {"properties": {"drink": {"enum": ["tea", "coffee"], "default": "tea"}}}
    assert chosen("tea", "As usual.", schema=schema)
    assert not chosen("tea", "Coffee.", schema=schema)
    assert not chosen("coffee", "As usual.", schema=schema)


def test_null_and_truth_are_judged_elsewhere():
    schema = {"properties": {"drink": {"anyOf": [{"enum": ["tea"]}, {"type": "null"}]}}}
    assert chosen(None, "Go on.", schema=schema)
    assert not chosen("tea", "Go on.", schema=schema)
    assert chosen(False, "Go on.", schema={"properties": {"hot": {"enum": [True, False]}}})


def test_an_option_that_negates_another_is_another():
    keep = {"properties": {"keep": {"enum": ["Delete", "Don't delete"]}}}
    for said, value in (("Delete.", "Delete"), ("Don't delete.", "Don't delete")):
        assert [each for each in ("Delete", "Don't delete") if chosen(each, said, schema=keep)] == [
            value
        ]


COUNT = {"properties": {"count": {"type": "number"}}}


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Two.", 2),
        ("Two of them, please.", 2),
        ("2", 2.0),
        ("Twenty-five euros.", 25),
        ("1,500", 1500),
        ("fifteen hundred", 1500),
        ("two thousand five hundred", 2500),
        ("Three point five.", 3.5),
        ("Two and a half.", 2.5),
        ("Half.", 0.5),
        ("A couple.", 2),
        ("A dozen.", 12),
        ("Just me.", 1),
        ("None.", 0),
        ("On the third.", 3),
        ("The 3rd.", 3),
        ("20 percent.", 0.2),
        ("20%", 20),
        ("one two three four", 1234),
        ("4 5 6", 456),
        ("minus five", -5),
        ("Duas.", 2),
        ("Vinte e cinco.", 25),
        ("Três vírgula cinco.", 3.5),
        ("Duas e meia.", 2.5),
        ("Uma dúzia.", 12),
        ("两个", 2),
        ("二十五", 25),
        ("Acht, also 8.", 8),
    ],
)
def test_a_number_that_the_user_has_said_counts(said, value):
    assert are_numbers_said(COUNT, {"count": value}, [said])


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Yes.", 9999),
        ("Surprise me.", 3),
        ("Two.", 200),
        ("Twenty.", 20_000),
        ("Twenty-five.", 52),
        ("2", 22),
        ("1,500", 15_000),
        ("two hundred", 300),
        ("What was that?", 1000),
        ("", 0),
        ("二十五", 205),
        ("Vinte e cinco.", 250),
    ],
)
def test_a_number_that_the_user_has_not_said_does_not_count(said, value):
    assert not are_numbers_said(COUNT, {"count": value}, [said])


def test_numbers_in_lists_count_like_others_and_a_default_needs_no_words():
    schema = {
        "properties": {"seats": {"type": "array"}, "count": {"type": "integer", "default": 1}}
    }
    assert are_numbers_said(schema, {"seats": [3, 4], "count": 1}, ["Three and four."])
    assert not are_numbers_said(schema, {"seats": [3, 5], "count": 1}, ["Three and four."])
    assert not are_numbers_said(schema, {"seats": [3, 4], "count": 7}, ["Three and four."])
