"""The fastmcp proxy: `PORT http URL`, `PORT shared URL` or `PORT stdio CMD ARGS…`.

`http` opens a fresh upstream session for each call, which is its default; `shared` keeps one.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.server import create_proxy

PORT, KIND, REST = int(sys.argv[1]), sys.argv[2], sys.argv[3:]


async def serve(target):
    await create_proxy(target, name="p").run_async(
        transport="http",
        host="127.0.0.1",
        port=PORT,
        path="/mcp",
        log_level="warning",
        show_banner=False,
    )


async def main():
    if KIND == "http":
        await serve(REST[0])
    elif KIND == "shared":
        async with Client(REST[0]) as client:
            await serve(client)
    else:
        await serve({"mcpServers": {"e": {"command": REST[0], "args": REST[1:]}}})


asyncio.run(main())
