// Checks UI messages of the standard input as the AI SDK does, and prints what they are for a model, as one line.
// Arguments: the folder `node_modules`, the name of the package (ai5, ai6, ai7).
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';

const [modules, version] = process.argv.slice(2);
const home = join(modules, version);
const entry = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')).exports['.'].import;
const { convertToModelMessages, validateUIMessages } = await import(
  pathToFileURL(join(home, typeof entry === 'string' ? entry : entry.default)).href
);

const messages = await validateUIMessages({ messages: JSON.parse(readFileSync(0, 'utf8')) });
process.stdout.write(`${JSON.stringify(await convertToModelMessages(messages))}\n`);
