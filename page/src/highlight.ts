// Colors for code: comments, strings, numbers, and keywords. The patterns need no language but its comments and its
// keywords, and each of them reads a character once. Code beyond the budgets stays plain.
import { h } from './dom.ts';

const CHARACTERS = 20_000;
const SPANS = 3_000;
const words = (text: string) => new Set(text.split(' '));
const C_LIKE = 'break case catch class const continue default do else enum extends false finally for if import in new null return static super switch this throw true try typeof var void while';
const SCRIPT = words(`${C_LIKE} as async await export from function implements instanceof interface let of private public readonly satisfies type undefined yield`);
const PYTHON = words('False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield');
const SHELL = words('case do done echo elif else esac export fi for function if in local return then until while');
const SQL = words('and as asc by case create delete desc distinct drop else end from group having in index inner insert into is join key left like limit not null on or order outer primary select set table then union update values when where with');
const SYSTEM = words(`${C_LIKE} abstract bool char defer double fn float fmt func go impl int interface let long match mod mut nil override package private protected pub public range self short signed struct template trait type unsigned use using virtual where`);
const NONE = words('true false null yes no');
const HASH = /#[^\n]*/;
const SLASH = /\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?/;
const DASH = /--[^\n]*/;
const STRING = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/;
const TRIPLE = /"""(?:[^"]|"(?!""))*(?:""")?|'''(?:[^']|'(?!''))*(?:''')?/;
const QUOTED = new RegExp(`${/`(?:[^`\\]|\\.)*`?/.source}|${STRING.source}`, 's');
const REST = '\\b\\d[\\w.]*|[A-Za-z_$][\\w$]*';

type Language = { pattern: RegExp; keywords: Set<string>; folds: boolean };

function language(comment: RegExp, string: RegExp, keywords: Set<string>, folds = false): Language {
  return { pattern: new RegExp(`(${comment.source})|(${string.source})|(${REST})`, 'gs'), keywords, folds };
}

const python = language(HASH, new RegExp(`${TRIPLE.source}|${STRING.source}`), PYTHON);
const script = language(SLASH, QUOTED, SCRIPT);
const shell = language(HASH, STRING, SHELL);
const system = language(SLASH, STRING, SYSTEM);
const plain = language(HASH, STRING, NONE);
const LANGUAGES: Record<string, Language> = {
  python, py: python, javascript: script, js: script, jsx: script, typescript: script, ts: script, tsx: script, json: script,
  bash: shell, sh: shell, shell, zsh: shell, console: shell, dockerfile: shell, sql: language(DASH, STRING, SQL, true),
  c: system, cpp: system, 'c++': system, csharp: system, go: system, java: system, kotlin: system, rust: system, rs: system, swift: system,
  toml: plain, yaml: plain, yml: plain, ini: plain,
};

/** The text of code as nodes, with a color for each part that has one. */
export function highlight(text: string, name: string): Node[] {
  const found = LANGUAGES[name.trim().toLowerCase().split(/\s/)[0] ?? ''];
  if (!found || text.length > CHARACTERS) return [document.createTextNode(text)];
  const nodes: Node[] = [];
  let end = 0;
  for (const match of text.matchAll(found.pattern)) {
    if (nodes.length >= SPANS) break;
    const kind = kindOf(match, found);
    if (!kind) continue;
    nodes.push(document.createTextNode(text.slice(end, match.index)), h('span', { class: kind }, match[0]));
    end = match.index + match[0].length;
  }
  return [...nodes, document.createTextNode(text.slice(end))];
}

function kindOf([, comment, string, word]: RegExpMatchArray, { keywords, folds }: Language): string | null {
  if (comment !== undefined) return 'hl-comment';
  if (string !== undefined) return 'hl-string';
  if (word === undefined) return null;
  if (/^\d/.test(word)) return 'hl-number';
  return keywords.has(folds ? word.toLowerCase() : word) ? 'hl-keyword' : null;
}
