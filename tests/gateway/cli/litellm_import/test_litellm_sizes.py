"""`strowger import litellm` with the configuration of a large fleet."""

from pathlib import Path
from time import process_time

from tests.gateway.cli.command_line import run

DEPLOYMENTS = 1500


def test_the_time_of_an_import_is_in_proportion_to_the_deployments(tmp_path: Path) -> None:
    entries = (
        f"  - {{model_name: m{number // 2}, litellm_params: {{model: azure/d{number}, rpm: 1, "
        f"api_base: https://e{number}.openai.azure.com, api_key: os.environ/KEY_{number}}}}}\n"
        for number in range(DEPLOYMENTS)
    )
    file = tmp_path / "litellm.yaml"
    file.write_text("model_list:\n" + "".join(entries))
    begin = process_time()

    imported = run("import", "litellm", str(file))

    assert imported.exit_code == 0, imported.stderr
    assert imported.stdout.count("adapter:") == DEPLOYMENTS
    assert process_time() - begin < 6  # 1.5 s; 10 s if it grew with the square
