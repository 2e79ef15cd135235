"""Pre-tokenizers of Hugging Face's tokenizers, each as its models' tokenizer.json has it.

Written apart from thinwire/text/pre_tokenizer_names.cc, in that library's dialect (Oniguruma).
"""

from tokenizers import Regex
from tokenizers import pre_tokenizers as pre

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
NO_HAN = r"&&[^\p{Han}]]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGITS3, CJK = r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+"
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"""|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"""
)
# Letters with case, as of some version of Unicode.
DEEPSEEK_LETTERS = [
    (0xB5,), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1BA), (0x1BC, 0x1BF), (0x1C4, 0x293),
    (0x295, 0x2AF), (0x370, 0x373), (0x376,), (0x377,), (0x37B, 0x37D), (0x37F,), (0x386,),
    (0x388, 0x38A), (0x38C,), (0x38E, 0x3A1), (0x3A3, 0x3F5), (0x3F7, 0x481), (0x48A, 0x52F),
    (0x531, 0x556), (0x10A0, 0x10C5), (0x13A0, 0x13F5), (0x13F8, 0x13FD), (0x1C90, 0x1CBA),
    (0x1CBD, 0x1CBF), (0x1D00, 0x1D2B), (0x1D6B, 0x1D77), (0x1D79, 0x1D9A), (0x1E00, 0x1F15),
    (0x1F18, 0x1F1D), (0x1F20, 0x1F45), (0x1F48, 0x1F4D), (0x1F50, 0x1F57), (0x1F59,), (0x1F5B,),
    (0x1F5D,), (0x1F5F, 0x1F7D), (0x1F80, 0x1FB4), (0x1FB6, 0x1FBC), (0x1FBE,), (0x1FC2, 0x1FC4),
    (0x1FC6, 0x1FCC), (0x1FD0, 0x1FD3), (0x1FD6, 0x1FDB), (0x1FE0, 0x1FEC), (0x1FF2, 0x1FF4),
    (0x1FF6, 0x1FFC), (0x2102,), (0x2107,), (0x210A, 0x2113), (0x2115,), (0x2119, 0x211D),
    (0x2124,), (0x2126,), (0x2128,), (0x212A, 0x212D), (0x212F, 0x2134), (0x2139,),
    (0x213C, 0x213F), (0x2145, 0x2149), (0x214E,), (0x2183,), (0x2184,), (0x2C00, 0x2C7B),
    (0x2C7E, 0x2CE4), (0x2CEB, 0x2CEE), (0x2CF2,), (0x2CF3,), (0xA640, 0xA66D), (0xA680, 0xA69B),
    (0xA722, 0xA76F), (0xA771, 0xA787), (0xA78B, 0xA78E), (0xAB70, 0xABBF), (0xFB00, 0xFB06),
    (0xFB13, 0xFB17), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x10400, 0x1044F), (0x104B0, 0x104D3),
    (0x104D8, 0x104FB), (0x10C80, 0x10CB2), (0x10CC0, 0x10CF2), (0x118A0, 0x118DF),
    (0x1E900, 0x1E943),
]  # fmt: skip


def split(*expressions):
    return pre.Sequence([pre.Split(Regex(e), "isolated") for e in expressions])


def words(digits, marks="", letters=r"\p{L}", punctuation_end=r"[\r\n]*", spaces=SPACES):
    """The expression of Llama 3 and its many descendants."""
    return (
        CONTRACTIONS
        + rf"|[^\r\n\p{{L}}\p{{N}}]?{letters}+|{digits}| ?[^\s\p{{L}}{marks}\p{{N}}]+"
        + punctuation_end
        + spaces
    )


def cased(contractions, digits, upper=UPPER, lower=LOWER, end=r"[\r\n/]*"):
    """The expression of GPT-4o: words begin with capitals."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{lead}{upper}*{lower}+{contractions}|{lead}{upper}+{lower}*{contractions}|{digits}"
        + r"| ?[^\s\p{L}\p{N}]+"
        + end
        + SPACES
    )


def ranges(pairs):
    return "".join("-".join(chr(c) for c in pair) for pair in pairs)


GPT4O = cased(CONTRACTIONS + "?", DIGITS3)
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
CASCADE = "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))

RULES = {
    "gpt-2": pre.ByteLevel(add_prefix_space=False, use_regex=True),
    "smollm": pre.Sequence([pre.Digits(individual_digits=True), split(GPT2)]),
    "default": split(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "falcon": pre.Sequence([pre.Punctuation("contiguous"), split(GPT2, "[0-9][0-9][0-9]")]),
    "llama-bpe": split(words(DIGITS3)),
    "qwen2": split(words(r"\p{N}")),
    "qwen35": split(words(r"\p{N}", r"\p{M}", r"[\p{L}\p{M}]")),
    "minicpm5": split(DIGITS3, words(r"\p{N}+")),
    "ufakzeka": split(words(r"\p{N}").removeprefix(CONTRACTIONS + "|")),
    "laguna": split(r"[^\n]+|[\n]+", words(r"\p{N}")),
    "jais-2": split(words(DIGITS3, spaces=rf"|\s*[\r\n]+{CASCADE}|\s{{1,2}}(?!\S)|\s{{1}}")),
    "seed-coder": split(
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + SPACES
    ),
    "bailingmoe": split(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "exaone-moe": split(
        words(
            r"\p{N}",
            letters=r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)",
            punctuation_end=r"[\r\n/]?",
            spaces=r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "gpt-4o": split(GPT4O),
    "tiny_aya": split(r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O),
    "tekken": split(cased("", r"\p{N}")),
    "youtu": split(
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + CJK,
        cased(CONTRACTIONS + "?", r"\p{N}"),
    ),
    "kimi-k2": split(
        r"[\p{Han}]+|"
        + cased(CONTRACTIONS + "?", DIGITS3, UPPER[:-1] + NO_HAN, LOWER[:-1] + NO_HAN, r"[\r\n]*")
    ),
    "deepseek-llm": split(
        "[\r\n]",
        rf"\s?[A-Za-z{ranges(DEEPSEEK_LETTERS)}]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        "[一-龥\u0800-一가-\ud7ff]+",
        r"\p{N}+",
    ),
    "deepseek-coder": split(
        "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+", r"\p{N}"
    ),
    "deepseek-v3": split(DIGITS3, CJK, DEEPSEEK3 + r"[\r\n]*" + SPACES),
    "spark2_5": split(DIGITS3, CJK, DEEPSEEK3 + r"|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"),
    "bloom": split(BLOOM),
    "viking": split(BLOOM, r"\p{N}"),
    "chameleon": split(
        "<sentinel:[0-9]+>",
        "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
        r"([\t\n]|    |  )",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        GPT2,
    ),
    "superbpe": split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
}


def byte_level(name):
    """Splits by the rule and writes bytes as characters."""
    return pre.Sequence([RULES[name], pre.ByteLevel(add_prefix_space=False, use_regex=False)])
