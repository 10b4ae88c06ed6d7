"""Secrets are masked: by declaration, by name, by look; and all else stays as it is."""

import json
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from leonidas_tools import tool
from leonidas_tools.redaction import (
    MASK,
    PLAIN_REDACTION,
    KnownSecrets,
    Redaction,
    Secret,
    is_secret_name,
    redact,
    redact_text,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nx9\n-----END RSA PRIVATE KEY-----"

SECRET_NAMES = (
    *["password", "Password", "user_password", "dbPassword", "passwd", "pwd", "passphrase"],
    *["token", "access_token", "refreshToken", "X-Auth-Token", "csrf_token", "authtoken"],
    *["secret", "client_secret", "clientsecret", "secrets", "SECRET_KEY", "aws_secret_access_key"],
    *["api_key", "apiKey", "apikey", "X-API-Key", "APIKey", "openai_api_key", "private_key"],
    *["authorization", "Authorization", "Proxy-Authorization", "credential", "credentials"],
    *["Cookie", "Set-Cookie", "auth", "otp", "cvv", "card_number", "senha", "密码", "pass_word"],
)
OTHER_NAMES = (
    *["city", "unit", "name", "key", "keys", "keyboard", "monkey", "author", "authors", "compass"],
    *["max_tokens", "token_count", "tokens", "next_page_token", "pageToken", "token_type"],
    *["password_length", "password_hint", "secret_name", "passenger", "passport_office"],
    *["secretary", "basic", "auth_url", "id", "", "_", "123", "primary_key", "auth_type"],
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_can_say_that_it_names_a_secret(name):
    assert is_secret_name(name)
    assert redact({name: "hunter2"}) == {name: MASK}
    assert redact({name: ["hunter2"]}) == {name: MASK}
    assert redact([{"deep": {name: 1234}}]) == [{"deep": {name: MASK}}]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_say_nothing_of_the_kind(name):
    assert not is_secret_name(name)
    assert redact({name: "hunter2"}) == {name: "hunter2"}


@pytest.mark.parametrize("value", [None, True, False, ""])
def test_what_says_nothing_is_not_masked(value):
    assert redact({"password": value}) == {"password": value}


def test_a_pair_of_name_and_value_is_one_of_a_name_and_its_value():
    pairs = [{"name": "Authorization", "value": "abc"}, {"name": "Accept", "value": "abc"}]
    assert redact(pairs) == [{"name": "Authorization", "value": MASK}, pairs[1]]


@pytest.mark.parametrize(
    ("text", "without"),
    [
        (f"it is {JWT}.", f"it is {MASK}"),
        (f"x {PEM} y", f"x {MASK} y"),
        (PEM[:50], MASK),
        ("sk-proj-abcDEF1234567890abcDEF", MASK),
        ("key sk_live_51H8abcDEF1234567890!", f"key {MASK}!"),
        ("AKIAIOSFODNN7EXAMPLE", MASK),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", MASK),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", MASK),
        ("xoxb-123456789012-abcdef", MASK),
        ("hf_abcdefghijklmnopqrstuvwx", MASK),
        ("https://ana:hunter2@example.org/x", f"https://{MASK}@example.org/x"),
        ("postgres://u:p@ss@db/x", f"postgres://{MASK}@db/x"),
        ("redis://:hunter2@cache:6379", f"redis://{MASK}@cache:6379"),
        ("Authorization: Bearer abc", f"Authorization: {MASK}"),
        ("curl -H 'Authorization: Basic YW5h'", f"curl -H 'Authorization: {MASK}'"),
        ("sent Bearer abcdef1234567890abcdef", f"sent Bearer {MASK}"),
        ("password=hunter2&user=ana", f"password={MASK}&user=ana"),
        ('{"api_key": "a b c", "n": 1}', f'{{"api_key": "{MASK}", "n": 1}}'),
        ('{\\"password\\": \\"hunter2\\"}', f'{{\\"password\\": \\"{MASK}\\"}}'),
        ("GEMINI_API_KEY=abc", f"GEMINI_API_KEY={MASK}"),
        ("?access_token=abc#x", f"?access_token={MASK}"),
        # cut off in the middle: what is left of a key is masked too
        ("go to https://ana:hunt… 20 more characters", f"go to https://{MASK}@ 20 more characters"),
        ("use sk-abc… 40 more characters", f"use {MASK} 40 more characters"),
        ("use eyJhbG… 400 more characters", f"use {MASK} 400 more characters"),
    ],
)
def test_a_text_can_look_like_a_secret(text, without):
    assert redact_text(text) == without
    assert redact_text(without) == without


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org:8080/a@b",
        "ssh://git@example.org/x",
        "see https://example.org/token/list",
        "a sk-learn-compatible-estimator",
        "the bearer of bad news",
        "max_tokens=100, tokens: 5",
        "next_page_token=abc",
        "password: none",
        "Basic information about keys",
        "the secret of success",
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "123e4567-e89b-12d3-a456-426614174000",
        "AKIA is a prefix",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_other_texts_stay(text):
    assert redact_text(text) == text


class Login(BaseModel):
    user: str
    phrase: SecretStr


def test_a_parameter_can_be_declared_secret_in_several_ways():
    @tool
    def connect(
        host: str,
        pin: Annotated[str, Secret],
        pins: list[Annotated[str, Secret]],
        login: Login,
        phrase: SecretStr | None = None,
    ) -> None:
        """Connects."""

    redaction = Redaction.of_schema(connect.metadata.parameters)
    assert redaction.names == {"pin", "pins", "phrase"}
    arguments = {
        "host": "h",
        "pin": "4711",
        "pins": ["1", "2"],
        "login": {"user": "ana", "phrase": "x"},
    }
    assert redaction.arguments(arguments) == {
        "host": "h",
        "pin": MASK,
        "pins": MASK,
        "login": {"user": "ana", "phrase": MASK},
    }
    assert redaction({"said": "x"}) == {"said": "x"}


MARKED = {"x-secret": True}
ANCHORED = {"$anchor": "s", **MARKED}
NODE = {"properties": {"v": {"x-secret": "yes"}, "next": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    ("schema", "names", "everything"),
    [
        ({"properties": {"a": {"writeOnly": True}, "b": {}}}, {"a"}, False),
        ({"properties": {"a": {"writeOnly": False, "x-secret": False}}}, set(), False),
        ({"properties": {"a": {"anyOf": [{"format": "password"}, {}]}}}, {"a"}, False),
        ({"properties": {"a": {"$ref": "#/$defs/s~1t"}}, "$defs": {"s/t": MARKED}}, {"a"}, False),
        ({"properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}, {"v"}, False),
        ({"properties": {"a": {"patternProperties": {"^x": {"writeOnly": True}}}}}, {"a"}, False),
        ({"additionalProperties": {"writeOnly": True}}, set(), True),
        ({"properties": {"a": {"$ref": "https://example.org/x"}}}, set(), False),
        ({"properties": {"a": {"$ref": "#s"}}, "$defs": {"x": ANCHORED}}, {"a"}, False),
        ({"properties": {"a": {"$ref": "#/if/oneOf/0"}}, "if": {"oneOf": [MARKED]}}, {"a"}, False),
        ({"properties": {"a": {"$ref": "#/$defs/s%20t"}}, "$defs": {"s t": MARKED}}, {"a"}, False),
        ({"properties": {"a": True}, "required": ["a"], "anyOf": None}, set(), False),
        ({}, set(), False),
    ],
)  # fmt: skip
def test_marks_are_found_however_a_schema_says_it(schema, names, everything):
    redaction = Redaction.of_schema(schema)
    assert (redaction.names, redaction.everything) == (names, everything)


def test_marks_behind_references_that_multiply_are_found_in_linear_time():
    refs = [{"$ref": f"#/$defs/{n + 1}"} for n in range(100)]
    levels = {str(n): {"items": each, "additionalProperties": each} for n, each in enumerate(refs)}
    schema = {"properties": {"a": {"$ref": "#/$defs/0"}, "b": MARKED}, "$defs": levels}
    assert Redaction.of_schema(schema).names == {"b"}


def test_where_everything_is_secret_no_argument_is_shown():
    redaction = Redaction(everything=True)
    assert redaction.arguments({"a": 1, "b": None}) == {"a": MASK, "b": MASK}
    assert redaction.hiding({"a": "hunter2"})({"said": "hunter2"}) == {"said": MASK}
    assert redaction.to_json({"said": "yes"}) == '{"said":"yes"}'


def test_a_secret_argument_is_hidden_also_in_the_result():
    redaction = Redaction(names=frozenset({"pin"})).hiding(
        {"pin": "4711", "password": {"old": "hunter2"}, "city": "Lisbon"}
    )
    assert redaction({"said": "4711 and hunter2 in Lisbon"}) == {
        "said": f"{MASK} and {MASK} in Lisbon"
    }


def test_short_secrets_are_not_hidden_elsewhere():
    assert PLAIN_REDACTION.hiding({"password": "on"}) is PLAIN_REDACTION


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
SECRETS = st.sampled_from([JWT, PEM, "AKIAIOSFODNN7EXAMPLE", "sk-abcDEF1234567890abcDEF"])
PLAIN_WORDS = st.lists(
    st.sampled_from(["Lisbon", "warm", "21 degrees", "a-b_c", "x: y"]), max_size=5
)


@given(JSON)
def test_a_value_without_secrets_keeps_its_shape_and_masking_twice_changes_nothing(value):
    once = redact(value)
    assert redact(once) == once
    assert type(once) is type(value)
    assert json.loads(PLAIN_REDACTION.to_json(value)) == once


@given(SECRETS, PLAIN_WORDS, PLAIN_WORDS)
def test_a_secret_is_found_wherever_it_stands(secret, before, after):
    text = " ".join([*before, secret, *after])
    value = {"rows": [{"text": text}, {text: 1}]}
    assert secret not in str(redact(value))
    assert secret not in PLAIN_REDACTION.to_json(value)


@given(
    st.lists(st.sampled_from([*SECRET_NAMES, *OTHER_NAMES, "x"]), max_size=3),
    st.sampled_from("_-. "),
)
def test_the_quick_look_at_json_misses_no_name(words, between):
    name = between.join(words)
    value = {name: "hunter2"}
    assert json.loads(PLAIN_REDACTION.to_json(value)) == redact(value)


@pytest.mark.parametrize(
    "text",
    [
        "token" * 20_000 + "=",
        "://" + "a:" * 50_000,
        "eyJ" * 30_000,
        "sk-" * 30_000,
        "-----BEGIN " * 9_000 + "=token",
        "password" + " " * 99_000 + "=",
    ],
)
def test_no_text_takes_long(text):
    # Each would take hours if the work grew with the square of the length.
    assert redact_text(text)


KEYS = [f"ghp_{n:020}" for n in range(1000)]


@pytest.mark.parametrize("mask", [redact, KnownSecrets(KEYS)])
def test_entries_whose_masked_keys_are_alike_are_all_kept(mask):
    value = {KEYS[0]: 1, "***": 2, KEYS[1]: 3, "*** (2)": 4}
    assert mask(value) == {"*** (3)": 1, "***": 2, "*** (4)": 3, "*** (2)": 4}


@pytest.mark.parametrize("mask", [redact, KnownSecrets(KEYS)])
def test_many_entries_whose_masked_keys_are_alike_keep_short_keys(mask):
    shown = mask(dict.fromkeys(KEYS, "") | {"n": 1})
    assert len(shown) == len(KEYS) + 1
    assert max(map(len, shown)) == len("*** (1000)")
