// Markdown as elements. What a model writes as HTML is shown as text; addresses that are not of the web are no links.
import { lexer, type Token, type Tokens } from 'marked';
import { copyButton, h } from './dom.ts';

const SAFE = /^(https?:|mailto:)/i;

/** Shows a text that grows: blocks that are as they were keep their elements. */
export class MarkdownView {
  readonly element = h('div', { class: 'markdown' });
  private blocks: string[] = [];

  show(text: string) {
    const tokens = lexer(text, { gfm: true, breaks: true });
    const raws = tokens.map(token => token.raw);
    const same = this.blocks.findIndex((raw, at) => raw !== raws[at]);
    const from = same < 0 ? this.blocks.length : same;
    while (this.element.childNodes.length > from) this.element.lastChild?.remove();
    // Each block has one node, so that they can be counted.
    for (const token of tokens.slice(from)) this.element.append(block(token));
    this.blocks = raws;
  }
}

function block(token: Token): Node {
  switch (token.type) {
    case 'heading': {
      const { depth, tokens } = token as Tokens.Heading;
      return h(`h${Math.min(depth + 2, 6)}` as 'h3', {}, ...inlines(tokens));
    }
    case 'paragraph':
      return h('p', {}, ...inlines(token.tokens));
    case 'text':
      return h('p', {}, ...('tokens' in token && token.tokens ? inlines(token.tokens) : [plain(token)]));
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
  return h('div', { class: 'code' }, head, h('pre', { tabindex: 0 }, h('code', {}, token.text)));
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
  const head = token.header.map(cell => h('th', { scope: 'col' }, ...inlines(cell.tokens)));
  const rows = token.rows.map(row => h('tr', {}, ...row.map(cell => h('td', {}, ...inlines(cell.tokens)))));
  const shown = h('table', {}, h('thead', {}, h('tr', {}, ...head)), h('tbody', {}, ...rows));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, shown);
}

function inlines(tokens: Token[] | undefined): Node[] {
  return (tokens ?? []).map(inline);
}

function inline(token: Token): Node {
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
