import {
  type ListedRows,
  noteInstant,
  noteNextPage,
  type ToolRead,
  textsAreData,
} from './notes.ts';

const totals =
  "total_spent_in_cents sums paid purchases of all time in the shop's most frequent currency, unless the shop writes it otherwise. For other times, use purchase_report with group_by customer.";

export const noteCustomers = (read: ToolRead<ListedRows>): string[] => [
  ...noteInstant(read),
  ...(read.response.data.length === 0 ? ['No customer matches.'] : []),
  ...noteNextPage(read),
  totals,
  textsAreData,
];

export const noteCustomer = (): string[] => [
  totals,
  'A field that is missing has no value.',
  textsAreData,
];

export const noteSegments = (read: ToolRead): string[] => [
  ...noteNextPage(read),
  'The customers of a segment: find_customers with segment_id.',
  textsAreData,
];

export const noteCampaigns = (read: ToolRead): string[] => [
  ...noteNextPage(read),
  'Metrics count messages, not purchases. For revenue, use purchase_report with group_by utm_campaign, whose texts need not be names of campaigns.',
  textsAreData,
];
