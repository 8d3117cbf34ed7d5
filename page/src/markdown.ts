// Markdown as elements. What a model writes as HTML is shown as text; addresses that are not of the web are no links.
import { Lexer, type Token, type Tokens, type TokensList } from 'marked';
import { copyButton, h } from './dom.ts';
import { highlight } from './highlight.ts';

const SAFE = /^(https?:|mailto:)/i;

// The budgets of one text. Beyond them, the rest is shown as it was written, so that no text of a model holds the page.
const CHARACTERS = 200_000;
const DEPTH = 30; // quotes and lists inside each other
const WORK = 2_000_000; // marks of a paragraph, multiplied by its length: the reader looks for the end of each mark
const NODES = 10_000;
const BLOCKS = 1_000;
const ROWS = 200;
const COLUMNS = 50;
const MILLISECONDS = 250; // a text that took longer once is shown as it was written from then on

const written = (raw: string): Token => ({ type: 'text', raw, text: raw, escaped: false });

/** A reader of Markdown that leaves what is too deep, or has too many marks, as it was written. */
class Reader extends Lexer {
  private depth = 0;

  override blockTokens(source: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(source: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(source: string, tokens: Token[] | TokensList = [], clipped?: boolean): Token[] | TokensList {
    if (this.depth >= DEPTH) {
      tokens.push(written(source));
      return tokens;
    }
    this.depth += 1;
    try {
      return super.blockTokens(source, tokens, clipped);
    } finally {
      this.depth -= 1;
    }
  }

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    const marks = source.match(/[*_~`[\]<&:]/g)?.length ?? 0;
    if (marks * source.length <= WORK) return super.inlineTokens(source, tokens);
    tokens.push(written(source));
    return tokens;
  }
}

let left = NODES;

/** Shows a text that grows: blocks that are as they were keep their elements. */
export class MarkdownView {
  readonly element = h('div', { class: 'markdown' });
  private blocks: string[] = [];
  private isSlow = false;

  show(text: string) {
    const began = performance.now();
    const tokens = this.read(text);
    const raws = tokens.map(token => token.raw);
    left = NODES;
    const same = this.blocks.findIndex((raw, at) => raw !== raws[at]);
    const from = same < 0 ? this.blocks.length : same;
    while (this.element.childNodes.length > from) this.element.lastChild?.remove();
    // Each block has one node, so that they can be counted.
    for (const token of tokens.slice(from)) this.element.append(block(token));
    this.blocks = raws;
    this.isSlow ||= performance.now() - began > MILLISECONDS;
  }

  private read(text: string): Token[] {
    if (text.length > CHARACTERS || this.isSlow) return [written(text)];
    try {
      const tokens: Token[] = new Reader({ gfm: true, breaks: true }).lex(text);
      const rest = tokens.splice(BLOCKS).map(token => token.raw).join('');
      return rest ? [...tokens, written(rest)] : tokens;
    } catch {
      return [written(text)]; // such as a RangeError, if the stack has no room
    }
  }
}

function block(token: Token): Node {
  if (--left < 0) return h('p', { class: 'plain' }, token.raw);
  switch (token.type) {
    case 'heading': {
      const { depth, tokens } = token as Tokens.Heading;
      return h(`h${Math.min(depth + 2, 6)}` as 'h3', {}, ...inlines(tokens));
    }
    case 'paragraph':
      return h('p', {}, ...inlines(token.tokens));
    case 'text':
      return 'tokens' in token && token.tokens ? h('p', {}, ...inlines(token.tokens)) : h('p', { class: 'plain' }, plain(token));
    case 'code':
      return codeBlock(token as Tokens.Code);
    case 'blockquote':
      return h('blockquote', {}, ...(token.tokens ?? []).map(block));
    case 'list':
      return list(token as Tokens.List);
    case 'table':
      return table(token as Tokens.Table);
    case 'hr':
      return h('hr');
    case 'space':
    case 'def':
      return document.createComment('');
    default:
      return h('p', {}, token.raw);
  }
}

function codeBlock(token: Tokens.Code) {
  const head = h('div', { class: 'code-head' }, h('span', {}, token.lang ?? ''), copyButton('Copy the code', () => token.text));
  return h('div', { class: 'code' }, head, h('pre', { tabindex: 0 }, h('code', {}, ...highlight(token.text, token.lang ?? ''))));
}

function list(token: Tokens.List) {
  const items = token.items.map(item => {
    const box = item.task && h('input', { type: 'checkbox', disabled: true, checked: item.checked === true, 'aria-label': 'task' });
    const loose = item.tokens.map(one => (one.type === 'text' ? h('span', {}, ...inlines(one.tokens ?? [one])) : block(one)));
    return h('li', {}, box, ...loose);
  });
  return token.ordered ? h('ol', { start: token.start === '' ? 1 : token.start }, ...items) : h('ul', {}, ...items);
}

function table(token: Tokens.Table) {
  if (token.rows.length > ROWS || token.header.length > COLUMNS) return h('p', { class: 'plain' }, token.raw);
  const head = token.header.map(cell => h('th', { scope: 'col' }, ...inlines(cell.tokens)));
  const rows = token.rows.map(row => h('tr', {}, ...row.map(cell => h('td', {}, ...inlines(cell.tokens)))));
  const shown = h('table', {}, h('thead', {}, h('tr', {}, ...head)), h('tbody', {}, ...rows));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, shown);
}

function inlines(tokens: Token[] | undefined): Node[] {
  return (tokens ?? []).map(inline);
}

function inline(token: Token): Node {
  if (--left < 0) return document.createTextNode(token.raw);
  switch (token.type) {
    case 'strong':
      return h('strong', {}, ...inlines(token.tokens));
    case 'em':
      return h('em', {}, ...inlines(token.tokens));
    case 'del':
      return h('del', {}, ...inlines(token.tokens));
    case 'codespan':
      return h('code', {}, plain(token));
    case 'br':
      return h('br');
    case 'link':
      return link(String(token['href']), inlines(token.tokens));
    case 'image': // nothing is fetched from another host, so that no picture tells it what is read here
      return link(String(token['href']), [document.createTextNode(`🖼 ${plain(token) || String(token['href'])}`)]);
    case 'text':
      return 'tokens' in token && token.tokens ? h('span', {}, ...inlines(token.tokens)) : document.createTextNode(plain(token));
    default:
      return document.createTextNode(plain(token));
  }
}

export function link(address: string, children: Node[]): Node {
  if (!SAFE.test(address)) return h('span', {}, ...children);
  return h('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...children);
}

const plain = (token: Token): string => ('text' in token ? String(token.text) : token.raw);
