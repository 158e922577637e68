"""AWS's own client for a Bedrock runtime, with types for the parts that the tests use."""

from typing import Protocol, cast

import boto3
from botocore.config import Config

from tests.stand_ins.bedrock_server import Json


class Runtime(Protocol):
    def converse(self, **fields: object) -> Json: ...
    def converse_stream(self, **fields: object) -> Json: ...
    def invoke_model(self, **fields: object) -> Json: ...
    def close(self) -> None: ...


class Clients(Protocol):
    def client(self, service_name: str, **fields: object) -> Runtime: ...


def runtime(url: str) -> Runtime:
    return cast("Clients", boto3).client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"max_attempts": 0}),
    )
