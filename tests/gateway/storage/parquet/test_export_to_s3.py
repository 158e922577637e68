"""The export to a bucket, on moto's server, a public stand-in for S3.

Of our dependencies only pyarrow speaks S3, so another program decides what arrives.
"""

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import boto3
import pytest

from strowger_gateway.gateway.storage.parquet.export import MANIFEST, Export
from strowger_gateway.gateway.storage.parquet.parts import arrow
from strowger_gateway.gateway.storage.parquet.target import open_target
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.parquet.test_export import DATASET, Recorded


@pytest.fixture
def bucket() -> Generator[tuple[str, Any]]:
    """An address of an empty bucket, and a client of it."""
    moto: Any = import_module("moto.server")  # it has no types
    server = moto.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    make: Any = getattr(boto3, "client")  # noqa: B009  its types are as many as there are services
    client = make(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="id-1",
        aws_secret_access_key="secret-1",
    )
    client.create_bucket(Bucket="records")
    options = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    yield f"s3://id-1:secret-1@records/some/place?{options}", client
    client.close()
    server.stop()


def test_a_bucket_gets_every_row_once_over_several_runs(
    tmp_path: Path, bucket: tuple[str, Any]
) -> None:
    where, client = bucket
    store = open_store(Secret(f"sqlite:///{tmp_path}/s.db"))
    recorded = Recorded(store)
    for size in (8, 0, 5):
        recorded.add(size)
        target = open_target(where)
        Export(store.database, target, part_rows=3).run()
        target.close()
    store.close()

    names = [one["Key"] for one in client.list_objects_v2(Bucket="records")["Contents"]]
    files, prefix = arrow("pyarrow.fs").FileSystem.from_uri(where)
    read = DATASET.dataset(f"{prefix}/requests", filesystem=files, partitioning="hive")
    ids = read.to_table().column("request_id").to_pylist()

    assert f"some/place/{MANIFEST}" in names
    assert all(".part" not in name for name in names)
    assert sorted(ids) == sorted(recorded.ids)


def test_a_bucket_that_is_missing_is_named_without_the_key(
    tmp_path: Path, bucket: tuple[str, Any]
) -> None:
    store = open_store(Secret(f"sqlite:///{tmp_path}/s.db"))
    Recorded(store).add(1)
    target = open_target(bucket[0].replace("records", "absent"))
    with pytest.raises(OSError, match="absent") as caught:
        Export(store.database, target).run()
    store.close()

    assert "secret-1" not in str(caught.value)
