"""Runs the features with one library and prints one JSON line each with the library's result."""

import json
import os
import sys

from pydantic import BaseModel

ROOT = os.environ["TOLLGATE_URL"]
BASE = ROOT + "/v1"
KEY = os.environ["TOLLGATE_KEY"]
HELLO = "Hello"
WEATHER = "What is the weather in Paris?"
SECONDS = 60


class Report(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def sky(city):
    return f"clear over {city}"


def run(library):
    """`library` has whole(key, model), stream(key, model, seen), tools(key), structured(key)."""
    tell("whole", lambda seen: seen.update(library.whole(KEY, "m")))
    tell("stream", lambda seen: library.stream(KEY, "m", seen))
    for feature in ("tools", "structured"):
        lacks = getattr(library, f"LACKS_{feature.upper()}", None)
        if lacks:
            print(json.dumps({"feature": feature, "lacks": lacks}), flush=True)
        else:
            tell(feature, lambda seen: seen.update(getattr(library, feature)(KEY)))
    tell("wrong_key", lambda seen: library.whole(os.environ["TOLLGATE_WRONG_KEY"], "m"))
    tell("no_credit", lambda seen: library.whole(os.environ["TOLLGATE_POOR_KEY"], "m"))
    tell("limited", lambda seen: library.whole(KEY, "limited"))
    tell("no_model", lambda seen: library.whole(KEY, "nothing"))
    tell("cut", lambda seen: library.stream(KEY, "breaks", seen))


def tell(feature, ask):
    seen = {"feature": feature, "text": "", "pieces": 0} if feature in ("stream", "cut") else {"feature": feature}
    try:
        ask(seen)
    except Exception as error:  # Every library has errors of its own.
        seen["error"] = f"{type(error).__name__}: {error}"
        seen["status"] = status_of(error)
    print(json.dumps(seen), flush=True)


def status_of(error):
    """The HTTP status of the error, or of the one that it wraps."""
    while error is not None:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return status
        error = error.__cause__ or error.__context__
    return None


def piece(seen, text):
    """Records one piece of a stream."""
    if text:
        seen["text"] += text
        seen["pieces"] += 1


def main():
    run(sys.modules["__main__"])
