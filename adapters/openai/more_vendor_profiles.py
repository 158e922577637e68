"""Clouds, aggregators and embedding services of the OpenAI dialect, one row each.

The second half of `adapters/openai/vendor_profiles.py`. A row offers only tasks, and lists only
differences, that a stored source shows; a comment names what was looked for and not found.
"""

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.form_repairs.user_data import user_limit
from strowger_gateway.adapters.openai.model_repairs import CHAT_MODEL_REPAIRS
from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.openai.vendor_profile import Source, VendorProfile
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM
from strowger_gateway.adapters.tasks import classify, rerank
from strowger_gateway.adapters.tasks.score import score_by

MORE: tuple[VendorProfile, ...] = (
    # Workers AI. The account is in the base URL, so it has none of its own:
    # https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1, or, through an AI Gateway,
    # https://gateway.ai.cloudflare.com/v1/ACCOUNT/GATEWAY/workers-ai/v1. Which sampling fields a
    # model reads is documented per model, so all are sent. Token ids were not found documented.
    VendorProfile(
        name="cloudflare",
        unsupported=frozenset({"input.tokens"}),
        completion=False,
        inputs=100,
        sources=(
            Source(
                url="https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility",
                edition="2026-11",
            ),
            Source(
                url="https://developers.llamaindex.ai/python/examples/embeddings/cloudflare_workersai",
                edition="2024-03",
            ),
        ),
    ),
    # For requests on an organization's account the base URL is
    # https://models.github.ai/orgs/ORG/inference. Embeddings rest on other clients; token ids were
    # not found.
    VendorProfile(
        name="github-models",
        repairs=server_repairs(*CHAT_MODEL_REPAIRS),
        base_url="https://models.github.ai/inference",
        unsupported=frozenset({"input.tokens"}),
        completion=False,
        sources=(
            Source(url="https://docs.github.com/en/rest/models/inference", edition="2026-11"),
            Source(url="https://docs.github.com/en/github-models/quickstart", edition="2026-11"),
        ),
    ),
    # The address of ap-southeast-1; other regions have their own. Huawei's own pages on the fields
    # were not found, so all are sent; it has rerankers and embedding models, whose routes were not
    # found documented either.
    VendorProfile(
        name="huawei-maas",
        base_url="https://api-ap-southeast-1.modelarts-maas.com/openai/v1",
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://support.huaweicloud.com/intl/en-us/usermanual-maas-modelarts/maas-modelarts-0011.html",
                edition="2025-09",
            ),
            Source(url="https://github.com/BerriAI/litellm/issues/27860", edition="2026-05"),
        ),
    ),
    # Jina's own reference was not found, only clients. `task`, `late_chunking`, `normalized`,
    # `embedding_type` and `truncate` are sent unchanged.
    VendorProfile(
        name="jina",
        tasks=(rerank.JINA, score_by(rerank.JINA), classify.JINA),
        base_url="https://api.jina.ai/v1",
        unsupported=frozenset({"user", "input.tokens"}),
        chat=False,
        completion=False,
        sources=(
            Source(
                url="https://docs.camel-ai.org/reference/camel.embeddings.jina_embedding",
                edition="2026-11",
            ),
            Source(
                url="https://docs.trychroma.com/integrations/embedding-models/jina-ai",
                edition="2026-11",
            ),
        ),
    ),
    # Bare prompts and token ids were not found documented.
    VendorProfile(
        name="nebius",
        base_url="https://api.tokenfactory.nebius.com/v1",
        unsupported=frozenset({"input.tokens"}),
        completion=False,
        sources=(
            Source(
                url="https://docs.tokenfactory.nebius.com/api-reference/introduction",
                edition="2026-11",
            ),
            Source(url="https://docs.agno.com/basics/knowledge/embedder/nebius", edition="2026-11"),
        ),
    ),
    # Its published request has no other fields than these, `separate_reasoning` and
    # `enable_thinking`. It links an embeddings API that was not found, so that is not offered.
    VendorProfile(
        name="novita",
        base_url="https://api.novita.ai/openai/v1",
        unsupported=frozenset(
            {
                "best_of",
                "tool_choice",
                "parallel_tool_calls",
                "reasoning_effort",
                "user",
                "metadata",
                "echo",
                "suffix",
                "prompt.tokens",
                "prompt.batch",
            }
        ),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty"}),
        single_max_tokens_field=True,
        embeddings=False,
        sources=(
            Source(
                url="https://novita.ai/docs/api-reference/model-apis-llm-create-chat-completion",
                edition="2026-11",
            ),
            Source(url="https://novita.ai/docs/guides/llm-api", edition="2026-11"),
        ),
    ),
    # The region is in the base URL, https://inference.generativeai.REGION.oci.oraclecloud.com
    # /openai/v1. API keys of Generative AI only: requests are not signed with an OCI account.
    # Embeddings have an API of OCI's own, in another dialect.
    VendorProfile(
        name="oci",
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://docs.oracle.com/en-us/iaas/Content/generative-ai/openai-compatible-api.htm",
                edition="2026-11",
            ),
            Source(
                url="https://docs.oracle.com/en-us/iaas/Content/generative-ai/chat-completions-api.htm",
                edition="2026-11",
            ),
        ),
    ),
    # Baidu's own page was not found, only a client that follows it. Embeddings were not looked at.
    VendorProfile(
        name="qianfan",
        base_url="https://qianfan.baidubce.com/v2",
        completion=False,
        embeddings=False,
        ranges={
            "temperature": Range(minimum=0, maximum=2),
            "top_p": Range(minimum=0, maximum=1),
        },
        sources=(
            Source(
                url="https://docs.camel-ai.org/reference/camel.configs.qianfan_config",
                edition="2026-11",
            ),
        ),
    ),
    # The address of mainland China; elsewhere it is https://api.siliconflow.com/v1. A stream
    # "usually" ends with `[DONE]`.
    VendorProfile(
        name="siliconflow",
        tasks=(rerank.SILICONFLOW, score_by(rerank.SILICONFLOW)),
        repairs=server_repairs(
            *ONE_SYSTEM, user_limit("https://github.com/looplj/axonhub/issues/1669", 64)
        ),
        base_url="https://api.siliconflow.cn/v1",
        unsupported=frozenset({"input.tokens"}),
        completion=False,
        stop=4,
        ranges={
            "temperature": Range(minimum=0, maximum=2),
            "top_p": Range(minimum=0, maximum=1),
            "min_p": Range(minimum=0, maximum=1),
        },
        sources=(
            Source(
                url="https://docs.siliconflow.cn/docs/api/chat-completions-post",
                edition="2026-11",
            ),
            Source(
                url="https://docs.siliconflow.cn/cn/api-reference/embeddings/create-embeddings",
                edition="2026-11",
            ),
        ),
    ),
    # The account is in the base URL, https://ACCOUNT.snowflakecomputing.com/api/v2/cortex/v1; the
    # key is a programmatic access token, an OAuth token or a JWT. Its embeddings are another API.
    VendorProfile(
        name="snowflake",
        max_tokens="max_completion_tokens",
        single_max_tokens_field=True,
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://docs.snowflake.com/user-guide/snowflake-cortex/open_ai_sdk",
                edition="2026-11",
            ),
            Source(
                url="https://github.com/anomalyco/opencode/blob/dev/packages/core/src/plugin/provider/snowflake-cortex.ts",
                edition="0090858",
            ),
        ),
    ),
    # Text Embeddings Inference: one model each, so it reads no name. It answers tasks at its root.
    VendorProfile(
        name="tei",
        tasks=(rerank.TEI, score_by(rerank.TEI), classify.TEI),
        base_url="http://localhost:8080/v1",
        chat=False,
        completion=False,
        unsupported=frozenset({"input.tokens"}),
        inputs=rerank.TEIS_MOST,
        sources=(
            Source(
                url="https://huggingface.github.io/text-embeddings-inference",
                edition="2026-11",
            ),
        ),
    ),
    # Ark. The vendor's own reference was not found, only ByteDance's framework. `thinking` is sent
    # unchanged. Embeddings were not found documented.
    VendorProfile(
        name="volcengine",
        base_url="https://ark.cn-beijing.volces.com/api/v3",
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://cloudwego.io/docs/eino/ecosystem/chat_model/chat_model_ark",
                edition="2026-11",
            ),
        ),
    ),
    # Voyage's own reference was not found, only its client. `input_type`, `truncation` and
    # `output_dtype` are sent unchanged. Newer models take more texts than these 128.
    VendorProfile(
        name="voyage",
        tasks=(rerank.VOYAGE, score_by(rerank.VOYAGE)),
        base_url="https://api.voyageai.com/v1",
        unsupported=frozenset({"user", "input.tokens"}),
        names={"dimensions": "output_dimension"},
        chat=False,
        completion=False,
        inputs=128,
        sources=(
            Source(
                url="https://app.unpkg.com/voyageai@0.0.4/files/api/client/requests/EmbedRequest.d.ts",
                edition="0.0.4",
            ),
            Source(
                url="https://docs.langchain.com/oss/javascript/integrations/embeddings/voyageai",
                edition="2026-11",
            ),
        ),
    ),
)
