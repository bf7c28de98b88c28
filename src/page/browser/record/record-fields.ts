import type { ExactInteger } from '../api/exact-json.ts';
import { element } from '../display/elements.ts';
import { formatCount, formatInstant, formatMoney, formatShare } from '../display/format.ts';
import { tableOf } from '../display/table.ts';

/** A record of the API. Fields without a value are missing. */
export type RecordObject = Readonly<Record<string, unknown>> & { readonly id: string };

/** Shown elsewhere, or of no use to a person. */
const omitted = new Set(['object', 'html_url', 'name', 'status']);

/** The plain fields of a record. Ids within a record belong to other systems. */
export const factsOf = (record: Readonly<Record<string, unknown>>): HTMLElement =>
  factList(
    Object.entries(record).filter(
      ([name, value]) => !omitted.has(name) && typeof value !== 'object',
    ),
  );

function factList(facts: readonly [name: string, value: unknown][]): HTMLElement {
  return element(
    'dl',
    { className: 'facts' },
    ...facts.map(([name, value]) =>
      element(
        'div',
        {},
        element('dt', {}, labelOf(name)),
        element('dd', { className: name === 'id' ? 'id' : '' }, textOf(name, value)),
      ),
    ),
  );
}

/** A section for each field that is an object or a list. */
export function sectionsOf(record: RecordObject): HTMLElement[] {
  return Object.entries(record)
    .filter(([, value]) => typeof value === 'object' && value !== null && hasContent(value))
    .map(([name, value]) =>
      element(
        'section',
        { className: 'panel' },
        element('h2', {}, labelOf(name)),
        contentOf(name, value as object),
      ),
    );
}

const hasContent = (value: object): boolean => Object.keys(value).length > 0;

function contentOf(name: string, value: object): HTMLElement {
  if (name === 'metrics') return metricsOf(value as Record<string, number>);
  if (name === 'tags') {
    const tags = value as readonly { readonly id: string; readonly name?: string }[];
    const items = tags.map(({ id, name }) => element('li', {}, name ?? id));
    return element('ul', { className: 'tags' }, ...items);
  }
  // An attribute has any name, and any value.
  if (name === 'attributes') return factList(Object.entries(value));
  if (Array.isArray(value)) return listOf(name, value as Record<string, unknown>[]);
  const { id: _, ...facts } = value as Record<string, unknown>;
  return factsOf(facts);
}

/** Counts, and their share of the first, which is the number of messages. */
function metricsOf(metrics: Readonly<Record<string, number>>): HTMLElement {
  const [[, all] = ['', 0]] = Object.entries(metrics);
  const cards = Object.entries(metrics).map(([name, count], index) =>
    element(
      'div',
      { className: 'card' },
      element('span', { className: 'card-label' }, labelOf(name)),
      element('span', { className: 'card-value' }, formatCount(count)),
      element(
        'span',
        { className: 'card-change' },
        index === 0 || all === 0 ? '' : formatShare(count / all),
      ),
    ),
  );
  return element('div', { className: 'cards metrics' }, ...cards);
}

function listOf(name: string, items: readonly Readonly<Record<string, unknown>>[]): HTMLElement {
  const names = [...new Set(items.flatMap(Object.keys))];
  const rows = items.map((item) =>
    element('tr', {}, ...names.map((name) => element('td', {}, textOf(name, item[name] ?? '–')))),
  );
  const columns = names.map((name) => ({ name: labelOf(name) }));
  return tableOf(labelOf(name), columns, rows);
}

/** `scheduled_for` becomes `Scheduled for`. */
function labelOf(name: string): string {
  const words = name
    .replace(/_in_cents$/, '')
    .replace(/^is_/, '')
    .replaceAll('_', ' ');
  if (words === 'id') return 'ID';
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const isInstant = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value);

const isInteger = (value: unknown): value is ExactInteger => /^-?\d+$/.test(String(value));

function textOf(name: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (name.endsWith('_in_cents') && isInteger(value)) return formatMoney(value, null);
  if (isInstant(value)) return formatInstant(value);
  if (typeof value === 'number' && Number.isInteger(value)) return formatCount(value);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
