import pytest

from intonaco.errors import PromptTooLongError
from intonaco.families.prompt import ChatTokenizer
from tests.support.tiny_flux2 import WORDS, build_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> ChatTokenizer:
    return ChatTokenizer(build_tokenizer(WORDS), max_sequence_length=8)


def test_ids_are_padded_to_the_models_length(tokenizer: ChatTokenizer):
    tokens = tokenizer.tokenize("a tall girl")

    assert tokens["input_ids"].shape == (1, 8)
    assert tokens["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]


def test_a_prompt_of_exactly_the_models_length_is_read(tokenizer: ChatTokenizer):
    assert tokenizer.tokenize(" ".join(["a"] * 8))["attention_mask"].sum() == 8


def test_a_longer_prompt_is_refused_with_length_and_limit(tokenizer: ChatTokenizer):
    with pytest.raises(PromptTooLongError, match=r"at most 8 tokens .* got 9; leave out 1 "):
        tokenizer.tokenize(" ".join(["a"] * 9))


def test_words_outside_the_vocabulary_are_named_once_in_order(tokenizer: ChatTokenizer):
    prompt = "a zebra girl, with zebra hair and Red hat."

    assert tokenizer.unknown_words(prompt) == ("zebra", "Red")


def test_letters_that_the_tokenizer_drops_are_unknown_words_too(tokenizer: ChatTokenizer):
    assert tokenizer.unknown_words("a girl with größe") == ("größe",)


def test_known_words_raise_no_warning(tokenizer: ChatTokenizer):
    assert tokenizer.unknown_words(" ".join(WORDS)) == ()


def test_words_of_the_chat_template_are_not_words_of_the_prompt():
    framed = build_tokenizer(WORDS)
    framed.chat_template = "system zzz {{ messages[0]['content'] | lower }} assistant qqq"
    tokenizer = ChatTokenizer(framed, max_sequence_length=64)

    assert tokenizer.unknown_words("a RED zebra") == ("zebra",)


def test_a_words_beginning_is_unknown_where_the_checkpoint_lists_its_words():
    tokenizer = ChatTokenizer(build_tokenizer(WORDS), max_sequence_length=8, vocabulary=WORDS)
    assert tokenizer.unknown_words("a gir with red hair") == ("gir",)
