# pyright: basic, reportMissingImports=false
"""What LiteLLM's own functions make of secrets, and where its migrations are; JSON to stdout.

Arguments: the salt key, a credential, and the secrets of keys.
"""

import json
import os
import sys
from importlib.util import find_spec

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_SALT_KEY"] = sys.argv[1]

from litellm.proxy.common_utils.encrypt_decrypt_utils import encrypt_value_helper
from litellm.proxy.utils import hash_token

extras = find_spec("litellm_proxy_extras")
assert extras is not None
assert extras.origin is not None
print(
    json.dumps(
        {
            "migrations": os.path.dirname(extras.origin) + "/migrations",
            "sealed": encrypt_value_helper(sys.argv[2], sys.argv[1]),
            "tokens": [hash_token(secret) for secret in sys.argv[3:]],
        }
    )
)
