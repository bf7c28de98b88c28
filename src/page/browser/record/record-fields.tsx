import type { ComponentChildren } from 'preact';
import type { ExactInteger } from '../api/exact-json.ts';
import { Table } from '../components/table.tsx';
import { statusLabel } from '../display/dimensions.ts';
import { formatCount, formatInstant, formatMoney, formatShare } from '../display/format.ts';
import { texts } from '../language/language.ts';

/** A record of the API. Fields without a value are missing. */
export type RecordObject = Readonly<Record<string, unknown>> & { readonly id: string };

type Fields = Readonly<Record<string, unknown>>;

/** Shown elsewhere, or of no use to a person. */
const omitted = new Set(['object', 'html_url', 'name', 'status']);

type FactsProperties = {
  readonly record: Fields;
  /** Lines in place of the values of fields. */
  readonly lines?: Readonly<Record<string, readonly ComponentChildren[]>>;
  /** Of amounts. */
  readonly currency?: string | null;
};

/** The plain fields of a record. Ids within a record belong to other systems. */
export function Facts({ record, lines = {}, currency = null }: FactsProperties) {
  const facts = Object.entries(record)
    .filter(
      ([name, value]) => !omitted.has(name) && !['object', 'undefined'].includes(typeof value),
    )
    .map(([name, value]) => factOf(name, value, labelOf(name), currency));
  return (
    <FactList facts={facts.map((fact) => ({ ...fact, lines: lines[fact.name] ?? fact.lines }))} />
  );
}

type Fact = {
  readonly name: string;
  readonly label: string;
  readonly lines: readonly ComponentChildren[];
};

const factOf = (
  name: string,
  value: unknown,
  label: string,
  currency: string | null = null,
): Fact => ({
  name,
  label,
  lines: [textOf(name, value, currency)],
});

function FactList({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(({ name, label, lines }) => (
        <div key={name}>
          <dt>{label}</dt>
          {lines.map((line, index) => (
            <dd
              key={typeof line === 'string' ? line : index}
              class={name === 'id' ? 'id' : undefined}
            >
              {line}
            </dd>
          ))}
        </div>
      ))}
    </dl>
  );
}

/** A section for each field that is an object or a list. */
export function Sections({ record }: { readonly record: RecordObject }) {
  return (
    <>
      {Object.entries(record).map(([name, value]) => {
        const isShown = typeof value === 'object' && value !== null;
        if (!isShown || Object.keys(value).length === 0) return null;
        return (
          <section key={name} class="panel">
            <h2>{labelOf(name)}</h2>
            <Content name={name} value={value} />
          </section>
        );
      })}
    </>
  );
}

function Content({ name, value }: { readonly name: string; readonly value: object }) {
  if (name === 'metrics') return <Metrics metrics={value as Readonly<Record<string, number>>} />;
  if (name === 'tags') return <Tags tags={value as readonly Tag[]} />;
  if (name === 'attributes') {
    // An attribute has any name, which is in no catalogue, and any value.
    const facts = Object.entries(value).map(([name, one]) => factOf(name, one, wordsOf(name)));
    return <FactList facts={facts} />;
  }
  if (Array.isArray(value)) return <List name={name} items={value} />;
  const { id: _, ...facts } = value as Fields;
  return <Facts record={facts} />;
}

type Tag = { readonly id: string; readonly name?: string };

const Tags = ({ tags }: { readonly tags: readonly Tag[] }) => (
  <ul class="tags">
    {tags.map(({ id, name }) => (
      <li key={id}>{name ?? id}</li>
    ))}
  </ul>
);

/** Counts, and their share of the first, which is the number of messages. */
function Metrics({ metrics }: { readonly metrics: Readonly<Record<string, number>> }) {
  const [[, all] = ['', 0]] = Object.entries(metrics);
  return (
    <div class="cards metrics">
      {Object.entries(metrics).map(([name, count], index) => (
        <div key={name} class="card">
          <span class="card-label">{labelOf(name)}</span>
          <span class="card-value">{formatCount(count)}</span>
          <span class="card-change">
            {index === 0 || all === 0 ? '' : formatShare(count / all)}
          </span>
        </div>
      ))}
    </div>
  );
}

function List({ name, items }: { readonly name: string; readonly items: readonly Fields[] }) {
  // Ids belong to other systems, and take a fifth of the width of a phone.
  const names = [...new Set(items.flatMap(Object.keys))].filter((name) => name !== 'id');
  return (
    <Table label={labelOf(name)} columns={names.map((name) => ({ name: labelOf(name) }))}>
      {items.map((item) => (
        <tr key={JSON.stringify(item)}>
          {names.map((name) => (
            <td key={name}>{textOf(name, item[name] ?? '–')}</td>
          ))}
        </tr>
      ))}
    </Table>
  );
}

const labelOf = (name: string): string => labels[name] ?? wordsOf(name);

/** Of coupons and campaigns. Other systems may write any text. */
const kindFields = new Set(['type', 'scheduling_type', 'recipient_type']);

const values: Readonly<Record<string, string>> = texts.values;

const labels: Readonly<Record<string, string>> = { ...texts.dimensions, ...texts.fields };

/** `scheduled_for` becomes `Scheduled for`. */
function wordsOf(name: string): string {
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

function textOf(name: string, value: unknown, currency: string | null = null): string {
  if (typeof value === 'boolean') return value ? texts.records.yes : texts.records.no;
  if (name.endsWith('_in_cents') && isInteger(value)) return formatMoney(value, currency);
  if (name.endsWith('_status')) return statusLabel(String(value));
  if (kindFields.has(name)) return values[String(value)] ?? String(value);
  if (isInstant(value)) return formatInstant(value);
  if (typeof value === 'number' && Number.isInteger(value)) return formatCount(value);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
