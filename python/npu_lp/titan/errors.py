"""The error for input that cannot be used."""

from __future__ import annotations


class InputError(ValueError):
    """A flag, variable, data set or tokenizer that cannot be used.

    Its message says what was given, what is allowed and what to do. The commands print it without a traceback and end
    with status 2.
    """
