// Builds the page: src/ and the two files beside it become fxai/ui/static, or the folder that is given.
import { build } from 'esbuild';
import { cp, mkdir, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

const here = fileURLToPath(new URL('.', import.meta.url));
const target = process.argv[2] ?? join(here, '..', 'fxai', 'ui', 'static');

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await build({
  entryPoints: [join(here, 'src', 'app.ts'), join(here, 'app.css')],
  outdir: target,
  entryNames: '[name]',
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  legalComments: 'inline',
  logLevel: 'warning',
});
for (const name of ['index.html', 'icon.svg']) await cp(join(here, name), join(target, name));
