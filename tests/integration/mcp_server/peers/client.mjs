// A client on the TypeScript SDKs, the first (`sdk`) or the second (`client`): it uses the tools of a server and tells
// what it saw, as one line of JSON. Arguments: the folder node_modules, the SDK, then a URL or a command.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, which, target, ...args] = process.argv.slice(2);
const require = createRequire(`${modules}/here.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const isUrl = target.startsWith("http");

const scope = "@modelcontextprotocol";
const isNew = which === "client";
const { Client } = await load(isNew ? `${scope}/client` : `${scope}/sdk/client/index.js`);
const http = await load(isNew ? `${scope}/client` : `${scope}/sdk/client/streamableHttp.js`);
const stdio = await load(isNew ? `${scope}/client/stdio` : `${scope}/sdk/client/stdio.js`);
const elicitation = isNew
  ? "elicitation/create"
  : (await load(`${scope}/sdk/types.js`)).ElicitRequestSchema;

const seen = { asked: [], progress: [] };
const client = new Client(
  { name: "script", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } },
);
client.setRequestHandler(elicitation, async (request) => {
  seen.asked.push(request.params.message);
  return { action: "accept", content: { approve: !request.params.message.includes("/etc") } };
});
await client.connect(
  isUrl
    ? new http.StreamableHTTPClientTransport(new URL(target))
    : new stdio.StdioClientTransport({ command: target, args, stderr: "ignore" }),
);

const call = async (name, given, options) => {
  const params = given === undefined ? { name } : { name, arguments: given };
  try {
    return await client.callTool(params, ...(isNew ? [options] : [undefined, options]));
  } catch (error) {
    return { code: error.code, message: error.message, data: error.data };
  }
};

const { tools } = await client.listTools();
seen.tools = tools.map((tool) => tool.name);
seen.weather = await call("weather", { name: "Oslo" });
seen.nowhere = await call("weather", { name: "Atlantis" });
seen.invalid = await call("weather", { name: 7 });
seen.unknown = await call("whether", {});
seen.broken = await call("broken");
seen.forget = await call("forget");
seen.count = await call("count", { value: 4 }, { onprogress: (one) => seen.progress.push(one.message) });
seen.erased = await call("erase", { path: "/tmp/x" });
seen.kept = await call("erase", { path: "/etc/x" });
seen.protocol = client.getNegotiatedProtocolVersion?.() ?? null;
seen.server = client.getServerVersion();
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
