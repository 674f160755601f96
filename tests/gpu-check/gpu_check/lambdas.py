"""Lambdas in kernel names, brought to one form.

The device's compiler names a lambda by its scope:
    f(int)::{lambda()#1}::operator()() const::{lambda(float)#2}
The host's compiler sees a wrapper that nvcc puts in its place, for an extended lambda
    __nv_hdl_wrapper_t<false, true, false, __nv_dl_tag<void (*)(int), &f, 2u>, float (float), int>
or, for a device-only one, without its parameters
    __nv_dl_wrapper_t<__nv_dl_tag<void (*)(int), &f, 2u>, int>
Here all become `{lambda (float) in f}`; where the parameters are unknown, `{lambda ? in f}`.
"""

import re

WRAPPER = re.compile(r"__nv_h?dl_wrapper_t<")
TAG = re.compile(r"__nv_dl_(trailing_return_)?tag<")
LAMBDA = "{lambda("
UNKNOWN = "?"
OPENING, CLOSING = "<([{", ">)]}"


def plain(text):
    """The name with all its lambdas in the common form; a name that is not understood as it is."""
    form = text
    try:
        # The last wrapper has none inside it; the first scope has none before it.
        while wrappers := list(WRAPPER.finditer(form)):
            begin, inside = wrappers[-1].span()
            end = closing(form, inside - 1)
            form = form[:begin] + _of_wrapper(form[inside:end]) + form[end + 1:]
        while (position := form.find(LAMBDA)) >= 0:
            begin, end, lambda_ = _of_scope(form, position)
            form = form[:begin] + lambda_ + form[end:]
    except ValueError:
        return text
    # `> >` or `}>`: what stood in the lambda's place decides on the space.
    return form.replace(" >", ">")


def without_signatures(text):
    """The common form with all parameters unknown."""
    form = text
    try:
        while found := re.search(r"\{lambda \(", form):
            parameters = found.end() - 1
            form = form[:parameters] + UNKNOWN + form[closing(form, parameters) + 1:]
    except ValueError:
        return text
    return form


def closing(text, position):
    """The position of the bracket that closes the one at `position`."""
    depth = 0
    for index in range(position, len(text)):
        depth += _step(text, index)
        if depth == 0:
            return index
    raise ValueError("unbalanced")


def opening(text, position):
    """The position of the bracket that the one at `position` closes."""
    depth = 0
    for index in range(position, -1, -1):
        depth += _step(text, index)
        if depth == 0:
            return index
    raise ValueError("unbalanced")


def split(text):
    """The parts between the commas outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(text):
        depth += _step(text, index)
        if letter == "," and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
    return [*parts, text[begin:].strip()]


def _step(text, index):
    """By how much the letter deepens the nesting. An arrow's `>` is no bracket."""
    if text[index] in OPENING:
        return 1
    return -1 if text[index] in CLOSING and text[index - 1: index] != "-" else 0


def _of_wrapper(inside):
    """The common form of what is inside a wrapper's angle brackets."""
    arguments = split(inside)
    tag = [index for index, argument in enumerate(arguments) if TAG.match(argument)]
    parts = split(TAG.sub("", arguments[tag[0]])[:-1]) if tag else []
    if len(parts) < 2:
        raise ValueError("a wrapper without a tag")
    parameters = UNKNOWN
    if tag[0] > 0 and len(arguments) > tag[0] + 1:
        # An extended lambda: its function type follows, `float (float)`.
        signature = arguments[tag[0] + 1]
        parameters = signature[opening(signature, len(signature) - 1):]
    return f"{{lambda {parameters} in {_function_name(parts[1].lstrip('&'))}}}"


def _function_name(text):
    """`f<T>` of `(void f<T>(int))`, of `f<T>(int)` or of `f<T>`."""
    if text.startswith("(") and closing(text, 0) == len(text) - 1:
        text = text[1:-1]
    text = text.removesuffix(" const")
    if text.endswith(")") and not text.endswith("operator()"):
        text = text[: opening(text, len(text) - 1)]
    return text[_name_start(text, len(text)):]


def _name_start(text, end):
    """Where the qualified name that ends at `end` begins: after a space, comma or open bracket."""
    index = end - 1
    while index >= 0 and text[index] not in " ,&*" + OPENING:
        if text[index] in CLOSING:
            index = opening(text, index)
        index -= 1
    return index + 1


def _of_scope(text, position):
    """(begin, end, common form) of the scope whose first lambda is at `position`."""
    if not text[:position].endswith("::"):
        raise ValueError("a lambda outside of all scopes")
    # What encloses it is a function with its parameters.
    function = text[: position - len("::")].removesuffix(" const")
    name_end = opening(function, len(function) - 1) if function.endswith(")") else len(function)
    begin = _name_start(function, name_end)
    if begin == name_end:
        raise ValueError("a scope without a name")
    # Of lambdas inside lambdas the innermost is meant.
    innermost, end = position, closing(text, position) + 1
    while text.startswith("::operator()", end):
        after = _call_end(text, end + len("::operator()"))
        if not text.startswith("::" + LAMBDA, after):
            break
        innermost = after + len("::")
        end = closing(text, innermost) + 1
    parameters = innermost + len("{lambda")
    signature = text[parameters: closing(text, parameters) + 1]
    return begin, end, f"{{lambda {signature} in {function[begin:name_end]}}}"


def _call_end(text, position):
    """Where `<T>(int) const` ends, whose first and last part may be missing."""
    for bracket in "<(":
        if text.startswith(bracket, position):
            position = closing(text, position) + 1
    return position + len(" const") if text.startswith(" const", position) else position
