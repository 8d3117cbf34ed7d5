// Makes messages of chunks as a client of the AI SDK does. Argument: the folder `node_modules`. The standard input has
// an array of arrays of chunks; each is answered by a line: {"message"}, the last state, or {"error"}. A text in place
// of an array is read as partial JSON, and answered by {"value"}, or by {} where it holds nothing yet.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';

const home = join(process.argv[2], 'ai7');
const entry = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')).exports['.'].import;
const { parsePartialJson, readUIMessageStream, uiMessageChunkSchema } = await import(
  pathToFileURL(join(home, typeof entry === 'string' ? entry : entry.default)).href
);

async function build(chunks) {
  for (const chunk of chunks) {
    const checked = await uiMessageChunkSchema().validate(chunk);
    if (!checked.success) return { error: String(checked.error) };
  }
  const end = { type: 'message-metadata', messageMetadata: { end: true } }; // so that the last state is told
  const stream = ReadableStream.from([...chunks, end]);
  let message;
  try {
    for await (const state of readUIMessageStream({ stream, onError: () => {}, terminateOnError: false })) message = state;
  } catch (error) {
    return { error: String(error) };
  }
  return message?.metadata?.end ? { message } : { error: 'it ended before' };
}

for (const given of JSON.parse(readFileSync(0, 'utf8'))) {
  const answer = typeof given === 'string' ? { value: (await parsePartialJson(given)).value } : await build(given);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
