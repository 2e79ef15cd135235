"""Texts that tokenizers get wrong: reported ones and random ones that mix alphabets."""

import random

REPORTED = [
    " Việt",
    "Hello world! Café déjà vu — 123 😊",
    "\u2029国語を話す\u2029",
    "1234567",
    "12 345 6789 12345678901234567890 ½ ⅷ ٣٤٥",
    " <|im_end|> text",
    " <special> text",
    "<|im_start|>user\nhi<|im_end|>\n",
    "\n\n\n",
    "This is 🦙.cpp",
    "",
    " ",
    "  ",
    "\t\t \n \r\n  x",
    "I'm you're HE'LL don't 'tis ſ'S'ſ it’s",
    "a  b   c    d\n    indented\n\tx = [1, 2,3]\n",
    "    leading and trailing    ",
    "\u00a0nbsp\u00a0\u180emvs\u180e \u200bzw \u3000ideographic\u3000",
    "\u0085next line\u0085 \x1c\x1f \x0b\x0c",
    "e\u0301 combining, \u0939\u093f\u0928\u094d\u0926\u0940, ภาษาไทย",
    "mixedCASEWords XMLHttpRequest iPhone ABCdef ΣΙΓΜΑ σίγμα Džungla",
    "한국어 문장 日本語の文 中文句子，标点。！？",
    "🇩🇪👨‍👩‍👧‍👦🏳️‍🌈 emoji",
    "▁escaped▁space ▁ ",
    "http://a.b/c?d=e&f=g#h --flag=value $HOME ~/x `code` **bold** <tag/>",
    "snake_case_name(self, *args, **kwargs) -> None:  # comment",
    "\x00\x01\x7f control",
    "ﬁ ligature ǅ ʰ ª º ″ ‴ ∑ √ € ₿ ⠿",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the  the   thethethethe" * 3,
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz",
    "etaoinshrdlu    ",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789",
    "0123456789٠١٢٣½²Ⅷ",
    " \t\n\r",
    " \n\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u0085\u180e\x0b\x0c",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "’‘“”–—…¿¡«»·•",
    "éèêëàâäîïôöùûüçñßøåæœÿÉÀÇ",
    "αβγδεζηθΑΒΓΔабвгдежзАБВГДЕ",
    "你好世界中文国語日本人ひらがなカタカナ一龥",
    "가나다라한국어ㄱㅏ",
    "हिन्दीभाषาไทยעבריתالعربية",
    "😀😊🦙👍🏽❤️\u200d🇩🇪",
    "\u0301\u0308\u0327\u20e3\ufe0f",
    "'s't're've'm'll'd'S'LL",
]


def words_of(generator, alphabets):
    count = generator.randint(1, 12)
    return "".join(
        "".join(generator.choices(generator.choice(alphabets), k=generator.randint(1, 9)))
        for _ in range(count)
    )


def random_texts(seed, count):
    """Deterministic: the same texts for the same arguments."""
    generator = random.Random(seed)
    texts = []
    for _ in range(count):
        alphabets = generator.sample(ALPHABETS, generator.randint(1, 5))
        texts.append(words_of(generator, alphabets + [" "]))
    return texts
