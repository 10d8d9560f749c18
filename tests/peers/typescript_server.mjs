// An MCP server of the TypeScript SDK, with the tools `echo` and `pay`, the resource `note://a` and the prompt `hi`.
// Usage: node typescript_server.mjs NODE_MODULES ERA [PORT]. ERA is `both` or `stateless`. It serves standard input and output, or HTTP.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';

const [modules, era, port] = process.argv.slice(2);
const { resolve } = createRequire(`${modules}/x.js`);
const { McpServer, createMcpHandler } = await import(resolve('@modelcontextprotocol/server'));
const { z } = await import(resolve('zod'));

function server() {
  const one = new McpServer({ name: 'typescript', version: '1.0.0' });
  const text = z.object({ text: z.string() });
  const answer = ({ text }) => ({ content: [{ type: 'text', text }] });
  one.registerTool('echo', { description: 'Echoes.', inputSchema: text }, answer);
  one.registerTool('pay', { description: 'Pays.', inputSchema: text }, answer);
  one.registerTool('fail', { description: 'Fails.', inputSchema: text }, () => {
    throw new Error('no');
  });
  one.registerResource('a', 'note://a', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'a note' }] }));
  one.registerPrompt('hi', { description: 'Says hi.' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }],
  }));
  return one;
}

const legacy = era === 'both' ? undefined : 'reject';
if (port) {
  const { toNodeHandler } = await import(resolve('@modelcontextprotocol/node'));
  const handler = toNodeHandler(createMcpHandler(server, legacy && { legacy }));
  createServer(handler).listen(Number(port), '127.0.0.1', () => console.log('listens'));
} else {
  const { serveStdio } = await import(resolve('@modelcontextprotocol/server/stdio'));
  serveStdio(server, legacy && { legacy });
}
