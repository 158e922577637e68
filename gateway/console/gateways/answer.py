"""What `GET /admin/gateways` answers."""

from msgspec import Struct

from strowger_gateway.gateway.console.gateways.report import SeenGateway, SettingDifference


class GatewayList(Struct, frozen=True, kw_only=True):
    """The gateways with the same store, the one that answers first.

    differences: settings that those that respond do not have alike. trouble: why others are not
    known; "" if they are.
    """

    gateways: tuple[SeenGateway, ...]
    differences: tuple[SettingDifference, ...]
    trouble: str = ""
