import {
  type ListedRows,
  noMatch,
  noteFilters,
  noteInstant,
  noteNextPage,
  noteStatuses,
  type ToolRead,
  textsAreData,
} from './notes.ts';

const amounts = 'Amounts are in the smallest unit of the currency of each purchase.';

export async function notePurchases(read: ToolRead<ListedRows>): Promise<string[]> {
  return [
    ...noteInstant(read),
    noteStatuses(read),
    ...(read.response.data.length === 0 ? [noMatch] : []),
    ...noteNextPage(read),
    ...(read.next === null ? [] : ['To count or sum purchases, use purchase_report.']),
    amounts,
    ...(await noteFilters(read)),
    textsAreData,
  ];
}

export const notePurchase = (read: ToolRead): string[] => [
  ...noteInstant(read),
  'payment_status says whether the purchase is paid; status is the state of the order.',
  amounts,
  textsAreData,
];
