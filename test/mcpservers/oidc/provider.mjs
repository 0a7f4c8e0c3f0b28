// An authorization server by oidc-provider, for TestAuthorizationServer. It logs everybody in, and rotates refresh tokens.
// Arguments: the file of the module, and the seconds that access tokens live. It prints its address.
// GET /test says what has happened since the start, and POST /test revokes all grants.
import { createServer } from 'node:http';

const [file, seconds] = process.argv.slice(2);
const { Provider } = await import(file);
const server = createServer().listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'resource', client_secret: 'of-the-resource', grant_types: [], response_types: [], redirect_uris: [],
  }],
  scopes: ['offline_access'],
  claims: {},
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  rotateRefreshToken: true,
  ttl: {
    AccessToken: Number(seconds), AuthorizationCode: 60, Grant: 3600, IdToken: 60, Interaction: 60, RefreshToken: 3600,
    Session: 3600,
  },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({ scope: 'mcp', accessTokenFormat: 'opaque', accessTokenTTL: Number(seconds) }),
    },
  },
});

const seen = { renewals: 0, errors: [] };
const grants = new Set();
provider.on('grant.success', (ctx) => {
  if (ctx.oidc.params.grant_type === 'refresh_token') seen.renewals += 1;
  grants.add(ctx.oidc.entities.Grant.jti);
});
for (const event of ['authorization.error', 'grant.error', 'registration_create.error', 'server_error']) {
  provider.on(event, (_, err) => seen.errors.push(`${event}: ${err.message}, ${err.error_description}`));
}

// approve does what a person does at the pages of the login.
async function approve(req, res) {
  const { prompt, params, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: 'operator' } });
  }
  const grant = (grantId && await provider.Grant.find(grantId)) ||
    new provider.Grant({ accountId: 'operator', clientId: params.client_id });
  grant.addOIDCScope('offline_access');
  grant.addResourceScope(params.resource, 'mcp');
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } });
}

// revoke ends all grants, as a person does in the settings of an account.
async function revoke() {
  for (const id of grants) {
    await provider.AccessToken.revokeByGrantId(id);
    await provider.RefreshToken.revokeByGrantId(id);
    await (await provider.Grant.find(id))?.destroy();
  }
}

const callback = provider.callback();
server.on('request', async (req, res) => {
  if (req.url.startsWith('/interaction/')) return approve(req, res);
  if (req.url !== '/test') return callback(req, res);
  if (req.method === 'POST') await revoke();
  return res.setHeader('Content-Type', 'application/json').end(JSON.stringify(seen));
});
console.log(issuer);
