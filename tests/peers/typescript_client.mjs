// A client of the TypeScript SDK. Reads requests from standard input, one JSON array of a method's name and its arguments a line, and
// writes each result, or `{"error": ...}`, as a line.
// Usage: node typescript_client.mjs NODE_MODULES MODE URL TOKEN | node typescript_client.mjs NODE_MODULES MODE -- COMMAND...
// MODE is `legacy`, `auto` or a revision.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [modules, mode, url, ...rest] = process.argv.slice(2);
const { resolve } = createRequire(`${modules}/x.js`);
const { Client, StreamableHTTPClientTransport } = await import(resolve('@modelcontextprotocol/client'));
const { StdioClientTransport } = await import(resolve('@modelcontextprotocol/client/stdio'));

const client = new Client(
  { name: 'typescript', version: '1.0.0' },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: ['legacy', 'auto'].includes(mode) ? mode : { pin: mode } },
  },
);
client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { approve: true } }));
const transport =
  url === '--'
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: 'inherit' })
    : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
const say = (value) => console.log(JSON.stringify(value));
await client.connect(transport);
say(client.getNegotiatedProtocolVersion());
for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...args] = JSON.parse(line);
  try {
    say(await client[method](...args));
  } catch (error) {
    say({ error: { code: error.code, message: error.message, data: error.data } });
  }
}
await client.close();
