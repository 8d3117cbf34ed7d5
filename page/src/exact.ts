// Text that a person approves: all of it, with each character that cannot be seen, or that turns the text around, as an
// escape. The terminal has the same rules (fxai/schema/display.py: indent_json and squeeze); a test compares both.
const BLANK = '\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0'; // letters and marks that show nothing
const UNSEEN = new RegExp(`[\\p{C}\\p{Z}${BLANK}]`, 'gu');
const RUN = /((?:\\u[0-9a-f]{4}|[^\n]){1,6}?)\1{40,}/gu;

const unit = (code: number) => `\\u${code.toString(16).padStart(4, '0')}`;
const units = (text: string) => Array.from({ length: text.length }, (_, at) => unit(text.charCodeAt(at))).join('');

/** The text with escapes for what nobody sees; blanks, line ends and tabs stay. */
export function escapeText(text: string): string {
  return text.replace(UNSEEN, one => (one === ' ' || one === '\n' || one === '\t' ? one : units(one)));
}

/** The text with repetitions shown once and counted, so that none pushes the rest out of sight. */
export function squeeze(text: string): string {
  return text.replace(RUN, (run: string, one: string) => `⟨"${one}" ${Math.floor([...run].length / [...one].length).toLocaleString('en-US')} times⟩`);
}

/** A value as indented JSON: every member, however deep, and nothing folded. */
export function exactJson(value: unknown): string {
  return squeeze(escapeText(JSON.stringify(value, null, 2) ?? ''));
}
