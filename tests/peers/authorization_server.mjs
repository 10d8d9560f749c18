// An OAuth 2.1 authorization server, by the package oidc-provider, for one resource. Anyone may log in.
// Usage: node authorization_server.mjs NODE_MODULES PORT RESOURCE
import { createRequire } from 'node:module';

const [modules, port, resource] = process.argv.slice(2);
const { Provider } = await import(createRequire(`${modules}/x.js`).resolve('oidc-provider'));
const server = { scope: 'mcp', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } };
const provider = new Provider(`http://localhost:${port}`, {
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  cookies: { keys: ['k'] },
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      getResourceServerInfo: () => server,
      useGrantedResource: () => true,
    },
  },
  findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access', 'mcp'],
  clientDefaults: { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
