"""The bodies of Gemini's requests, of which google-genai has the parts and not the whole.

https://ai.google.dev/api/generate-content and https://ai.google.dev/api/embeddings; on Vertex AI
https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference.
"""

from typing import Required

from google.genai import types
from typing_extensions import TypedDict


class GenerateContentRequest(TypedDict, total=False):
    contents: Required[list[types.Content]]
    model: str
    systemInstruction: types.Content
    tools: list[types.Tool]
    toolConfig: types.ToolConfig
    generationConfig: types.GenerationConfig
    safetySettings: list[types.SafetySetting]
    cachedContent: str
    serviceTier: str
    labels: dict[str, str]


class EmbedContentRequest(TypedDict, total=False):
    model: str
    content: Required[types.Content]
    embedContentConfig: types.EmbedContentConfig
    taskType: str
    title: str
    outputDimensionality: int


class BatchEmbedContentsRequest(TypedDict):
    requests: list[EmbedContentRequest]
