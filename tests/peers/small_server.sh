#!/bin/sh
# An MCP server of the handshake era with the tool `plain`. It starts in a millisecond.
while read -r line; do
  id=${line#*\"id\":}
  id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"plain","description":"plain","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"done"}]}' ;;
    *'"ping"'*) result='{}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
