// Data as elements: texts, tables of records, pictures, files, and JSON that can be folded.
import { h } from './dom.ts';
import { link } from './markdown.ts';

type Data = unknown;
type Fields = Record<string, Data>;

const MOST = 200; // items of a list, or rows of a table, that are shown
const COLUMNS = 50;
const PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,/;

const isFields = (value: Data): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);
const isPlain = (value: Data) => value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** A value as a reader wants it: content of MCP as what it is, records as a table, all else as JSON. */
export function showValue(value: Data): Node {
  if (typeof value === 'string') return PICTURE.test(value) ? picture(value, 'Result') : h('div', { class: 'plain' }, value);
  if (isFields(value) && Array.isArray(value['content']) && value['content'].every(isContent))
    return h('div', { class: 'stack' }, ...value['content'].map(one => showContent(one as Fields)));
  const rows = rowsOf(value);
  return rows ? table(rows) : json(value);
}

const isContent = (value: Data) => isFields(value) && typeof value['type'] === 'string';

/** One piece of the content of a result of MCP. */
function showContent(part: Fields): Node {
  if (part['type'] === 'text') return h('div', { class: 'plain' }, String(part['text'] ?? ''));
  const url = `data:${String(part['mimeType'])};base64,${String(part['data'])}`;
  if (part['type'] === 'image' && PICTURE.test(url)) return picture(url, 'Result');
  if (part['type'] === 'resource_link') return link(String(part['uri']), [document.createTextNode(String(part['name'] ?? part['uri']))]);
  return json(part);
}

/** The rows of a list of records, at the top or in the only field that is a list. */
function rowsOf(value: Data): Fields[] | null {
  const found = isFields(value) && Object.keys(value).length === 1 ? Object.values(value)[0] : value;
  const isTable = Array.isArray(found) && found.length > 0 && found.every(isFields);
  return isTable ? (found as Fields[]) : null;
}

function table(rows: Fields[]): Node {
  const all = [...new Set(rows.slice(0, MOST).flatMap(row => Object.keys(row)))];
  const names = all.slice(0, COLUMNS);
  const cell = (value: Data) => h('td', {}, value === undefined ? '' : isPlain(value) ? String(value) : json(value));
  const lines = rows.slice(0, MOST).map(row => h('tr', {}, ...names.map(name => cell(row[name]))));
  const head = h('tr', {}, ...names.map(name => h('th', { scope: 'col' }, name)));
  const hidden = [rows.length > MOST && `${rows.length - MOST} more rows`, all.length > COLUMNS && `${all.length - COLUMNS} more columns`].filter(Boolean);
  const more = hidden.length > 0 && h('div', {}, h('p', { class: 'note' }, `and ${hidden.join(' and ')}`), all.length > COLUMNS && json(rows));
  const shown = h('table', {}, h('thead', {}, head), h('tbody', {}, ...lines));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of results' }, shown, more);
}

/** JSON that can be folded; what is inside is made when it is opened. */
export function json(value: Data): Node {
  if (isPlain(value) || value === undefined) return h('code', { class: 'json' }, JSON.stringify(value) ?? '');
  const fields: [string, Data][] = Array.isArray(value) ? value.map((one, at) => [String(at), one]) : Object.entries(value as Fields);
  const text = JSON.stringify(value);
  if (text.length < 60) return h('code', { class: 'json' }, text);
  const about = Array.isArray(value) ? `[ ${fields.length} ]` : `{ ${fields.slice(0, 4).map(([name]) => name).join(', ')}${fields.length > 4 ? ', …' : ''} }`;
  const folded = h('details', { class: 'json' }, h('summary', {}, about));
  const fill = () => {
    if (folded.childElementCount > 1) return;
    const items = fields.slice(0, MOST).flatMap(([name, one]) => [h('dt', {}, name), h('dd', {}, json(one))]);
    folded.append(h('dl', {}, ...items), fields.length > MOST ? h('p', { class: 'note' }, `and ${fields.length - MOST} more`) : '');
  };
  folded.addEventListener('toggle', fill);
  if (text.length < 600) {
    folded.open = true;
    fill();
  }
  return folded;
}

export function picture(url: string, name: string): Node {
  return h('img', { src: url, alt: name, loading: 'lazy' });
}

/** A file: a picture, a sound or a film where the page can show it, else its name. */
export function showFile(mediaType: string, url: string, name: string): Node {
  if (PICTURE.test(url)) return picture(url, name);
  if (url.startsWith('data:audio/')) return h('audio', { src: url, controls: true, 'aria-label': name });
  if (url.startsWith('data:video/')) return h('video', { src: url, controls: true, 'aria-label': name });
  const label = document.createTextNode(`📄 ${name || mediaType}`);
  if (url.startsWith('data:')) return h('a', { href: url, download: name || 'file', class: 'file' }, label);
  return link(url, [label]);
}
