import { formatCount, formatInstant, formatShare } from '../display/format.ts';
import { texts } from '../language/language.ts';
import type { RecordObject } from '../record/record-fields.tsx';
import type { ListName } from '../view/path.ts';

type Column = {
  readonly name: string;
  readonly isNumber?: boolean;
  /** A text of the data, of any length. */
  readonly isLabel?: boolean;
  text(record: RecordObject): string;
};

/** A list of records of one folder, with a column for each fact beside the name. */
export type RecordList = {
  readonly folder: keyof typeof texts.records.kinds;
  readonly title: string;
  readonly columns: readonly Column[];
};

const countOf = (value: unknown): string => (typeof value === 'number' ? formatCount(value) : '–');

const field = (name: keyof typeof texts.fields): Column => ({
  ...{ name: texts.fields[name], isLabel: true },
  text: ({ [name]: value }) => (typeof value === 'string' ? value : '–'),
});

const instant = (name: 'updated_at' | 'sent_at'): Column => ({
  name: texts.fields[name],
  text: ({ [name]: value }) => (typeof value === 'string' ? formatInstant(value) : '–'),
});

const count = (name: 'customer_count' | 'run_count'): Column => ({
  ...{ name: texts.fields[name], isNumber: true },
  text: (record) => countOf(record[name]),
});

/** A count of messages, with its share of those that were sent. */
const metric = (name: keyof typeof texts.fields, all: string): Column => ({
  ...{ name: texts.fields[name], isNumber: true },
  text: ({ metrics }) => {
    const { [name]: value, [all]: sent } = (metrics ?? {}) as Readonly<Record<string, unknown>>;
    const hasShare = name !== all && typeof value === 'number' && Number(sent) > 0;
    return countOf(value) + (hasShare ? ` (${formatShare(value / Number(sent))})` : '');
  },
});

/** The lists of each entry of the navigation, by the last part of its path. */
export const lists: Readonly<Record<ListName, readonly RecordList[]>> = {
  campaigns: [
    {
      folder: 'email-campaigns',
      title: texts.lists.emailCampaigns,
      columns: [
        instant('sent_at'),
        metric('sent', 'sent'),
        metric('delivered', 'sent'),
        metric('opened', 'sent'),
        metric('clicked', 'sent'),
      ],
    },
    {
      folder: 'template-campaigns',
      title: texts.lists.templateCampaigns,
      columns: [
        instant('sent_at'),
        metric('sent', 'sent'),
        metric('delivered', 'sent'),
        metric('read', 'sent'),
        metric('failed', 'sent'),
      ],
    },
  ],
  segments: [
    {
      folder: 'segments',
      title: texts.navigation.segments,
      columns: [field('description'), instant('updated_at'), count('customer_count')],
    },
  ],
  flows: [
    {
      folder: 'flows',
      title: texts.navigation.flows,
      columns: [field('trigger_event_type'), instant('updated_at'), count('run_count')],
    },
  ],
};
