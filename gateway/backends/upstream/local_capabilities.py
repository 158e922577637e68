"""The request fields that a local engine honours, as routing reads them."""

from strowger_gateway.adapters.base import EVERY_MODEL, READABLE, Continues, Supports
from strowger_gateway.adapters.client_fields.carried import NOTHING
from strowger_gateway.local_engine.protocol.capabilities import EXTRA, SUPPORTED

LOCAL_SUPPORTS = Supports(
    chat=SUPPORTED["chat"],
    completion=SUPPORTED["completion"],
    embeddings=SUPPORTED["embeddings"],
    tokens=SUPPORTED["tokens"],
    extra_fields=EXTRA,
    thoughts=READABLE,
    carries=NOTHING,
    continues=Continues(model=EVERY_MODEL),
)
