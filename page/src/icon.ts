// Icons: small drawings beside words. Screen readers skip them, because each button has words or a label.
const SPACE = 'http://www.w3.org/2000/svg';
const PATHS = {
  send: 'M8 13V3M3.5 7.5 8 3l4.5 4.5',
  stop: 'M4 4h8v8H4z',
  copy: 'M5.5 5.5V3h7.5v7.5h-2.5M3 5.5h7.5V13H3z',
  edit: 'M3 13v-2.5L10.5 3 13 5.5 5.5 13zM9 4.5 11.5 7',
  again: 'M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5',
  tool: 'M2.5 5h4M10.5 5h3M2.5 11h3M9.5 11h4M8.5 3a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM7.5 9a2 2 0 1 0 0 4 2 2 0 0 0 0-4z',
  done: 'M3 8.5 6.5 12 13 4.5',
  failed: 'M4 4l8 8M12 4l-8 8',
  wait: 'M8 3.5V8l3 2M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z',
  ask: 'M6 6a2 2 0 1 1 2.8 1.8C8.2 8.2 8 8.6 8 9.3M8 12v.2M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z',
  denied: 'M3.8 3.8l8.4 8.4M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z',
  think: 'M8 2a4.5 4.5 0 0 0-2.5 8.2V12h5v-1.8A4.5 4.5 0 0 0 8 2zM6 14h4',
} as const;

export type IconName = keyof typeof PATHS;

/** A drawing of this name, in the color and the size of the text. */
export function icon(name: IconName): SVGElement {
  const drawing = document.createElementNS(SPACE, 'svg');
  const path = document.createElementNS(SPACE, 'path');
  const attributes = { viewBox: '0 0 16 16', class: 'icon-drawing', 'aria-hidden': 'true' };
  for (const [key, value] of Object.entries(attributes)) drawing.setAttribute(key, value);
  path.setAttribute('d', PATHS[name]);
  drawing.append(path);
  return drawing;
}
