// oidc-provider, certified by the OpenID Foundation: https://www.npmjs.com/package/oidc-provider
// Reads {port, publicUrl, secret} from stdin, and says "ready" when it serves. It requires PKCE, and
// names itself in its answers (RFC 9207).
import { readFileSync } from "node:fs";
import Provider from "oidc-provider";

const { port, publicUrl, secret } = JSON.parse(readFileSync(0, "utf8"));
const people = { ann: ["sre"], eve: ["sales"] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "strowger",
      client_secret: secret,
      redirect_uris: [`${publicUrl}/admin/sign-in/callback`],
      response_types: ["code"],
      grant_types: ["authorization_code"],
    },
  ],
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username", "realm"] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, realm: { roles: people[id] ?? [] } }),
  }),
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
