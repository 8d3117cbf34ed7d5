// Reads an event stream from the standard input as a client of the AI SDK does, and prints each state of its message.
// Arguments: the folder `node_modules`, the name of the package (ai5, ai6, ai7). Lines: {"message"} or {"error"}.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';

const [modules, version] = process.argv.slice(2);
const home = join(modules, version);
const entry = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')).exports['.'].import;
const { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } = await import(
  pathToFileURL(join(home, typeof entry === 'string' ? entry : entry.default)).href
);

const say = line => process.stdout.write(`${JSON.stringify(line)}\n`);
const input = new Response(readFileSync(0)).body;
const chunks = parseJsonEventStream({ stream: input, schema: uiMessageChunkSchema }).pipeThrough(
  new TransformStream({
    transform(chunk, controller) {
      if (!chunk.success) throw chunk.error;
      controller.enqueue(chunk.value);
    },
  }),
);
const onError = error => say({ error: String(error?.message ?? error) });
try {
  for await (const message of readUIMessageStream({ stream: chunks, onError })) say({ message });
} catch (error) {
  onError(error);
}
