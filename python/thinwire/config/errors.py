"""The one error a config can end with, and how a value is shown in it."""

_MOST_CHARACTERS = 60
_MOST_IN_A_LINE = 400


class ConfigError(ValueError):
    """Bad input: one line with the key's full path, what was expected, what was found."""

    def __init__(self, path, expected, found, hint=""):
        self.path = path
        line = f"{path}: expected {expected}, found {show(found)}"
        super().__init__(_one_line(f"{line}: {hint}" if hint else line))

    @classmethod
    def worded(cls, path, line):
        """One whose line others wrote: it names the key and says the rest."""
        error = cls(path, "", "")
        half = _MOST_IN_A_LINE // 2
        short = line if len(line) <= 2 * half else f"{line[:half]} ... {line[-half:]}"
        error.args = (_one_line(short),)
        return error


class Given(str):
    """Words to stand for what was found, where showing the value itself would say less."""


def show(value):
    """`value` as JSON has it, on one line and not longer than a message can bear."""
    if isinstance(value, Given):
        return str(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        # Python refuses to print integers of more than 4300 digits.
        return str(value) if value.bit_length() <= 128 else "an integer of more than 128 bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        text = value if len(value) <= _MOST_CHARACTERS else value[:_MOST_CHARACTERS] + "..."
        return f'"{_one_line(text)}"'
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    return f"a value of type {type(value).__name__}"


def _one_line(text):
    return "".join(c if c.isprintable() else " " for c in text)
