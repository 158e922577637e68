"""Decodes streams of TGI's chat route, which versions before 2.2 end without `[DONE]`.

The answer's `system_fingerprint` starts with the version: `2.0.4-sha-f426a33`.
https://github.com/huggingface/text-generation-inference/pull/2221
"""

import re
from collections.abc import Sequence

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.schemas.events import Event

MARKED_SINCE = (2, 2)
_VERSION = re.compile(rb'"(\d{1,4})\.(\d{1,4})')


class TgiChatDecoder(OpenAIDecoder):
    """A stream must end with `[DONE]` or usage, unless its server's version sends neither."""

    marked = True

    def close(self) -> Sequence[Event]:
        found = _VERSION.match(bytes(self._head.extra.get("system_fingerprint", NULL)))
        if found and (int(found[1]), int(found[2])) < MARKED_SINCE:
            self.marked = self._announced = False
        return super().close()
