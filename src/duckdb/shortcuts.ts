/** Larger than any count or size, and a whole number: DuckDB, caches and JSON accept no infinity. */
const always = Number.MAX_SAFE_INTEGER;

/** A shortcut is off and forced at these thresholds. `usual` is the threshold of production. */
type Threshold = { readonly usual: number; readonly off: number; readonly forced: number };

/** A shortcut that is taken up to the threshold. */
const upTo = (usual: number): Threshold => ({ usual, off: 0, forced: always });
/** A shortcut that is taken from the threshold on. */
const from = (usual: number): Threshold => ({ usual, off: always, forced: 0 });

/**
 * Every place where a query of purchases chooses between two ways to the same result, with the threshold of
 * the shorter one. ARCHITECTURE.md has the gain of each.
 */
export const shortcutSettings = {
  /**
   * Tables join the periods of purchases, instead of arithmetic: for so many purchases for each quarter of an
   * hour. A simple calendar has one offset and no months.
   */
  minPurchasesPerQuarterOfSimpleCalendars: from(32),
  minPurchasesPerQuarterOfOtherCalendars: from(6),

  /** All groups are read, and put in order in JavaScript, if there can be at most so many. */
  maxGroupsInMemory: upTo(2_000),
  /** Customers of groups are counted by a bit for each, in so many bytes, instead of a hash table. */
  maxBitmapBytes: upTo(64 * 2 ** 20),
  /** They are at most so many for each purchase: hashing the customers of sparse groups takes less time. */
  maxBitsPerPurchase: upTo(256),
  /** The base tells the first purchases of reports and cohorts, instead of a join with them. */
  minPurchasesForStoredFirsts: from(0),
  /** Reports of more groups, and customers counted in groups, are refused. A refusal is never forced. */
  maxReportGroups: { usual: 20_000_000, off: always, forced: 20_000_000 },

  /** Pages come from cached lists. */
  listCacheBytes: upTo(32 * 2 ** 20),
  /** A walk reads ahead. */
  maxReadAheadPurchases: upTo(500),
  /** Changes of a log are applied to cached lists, instead of dropping these. */
  maxListChangesBytes: upTo(2 ** 19),
  /** Changes of a log are searched for a purchase, which is read without them if they do not have it. */
  maxSearchedChangesBytes: upTo(2 ** 19),
  /** Requests that need no changes leave so many pending. */
  maxPendingRecords: upTo(100),
  /** Changes are applied as they are published while queries follow each other so soon, instead of by the next one. */
  maxPauseMs: upTo(250),
  /** Pages are read from a time window that holds so many pages. */
  pagesPerWindow: { usual: 8, off: always, forced: 1 },
  /** So few purchases are exported in the process, instead of a process of its own. */
  maxListedPurchases: { usual: 2_000, off: 0, forced: 1_000_000 },

  /** Responses are cached by the version of the data. */
  responseCacheBytes: upTo(64 * 2 ** 20),
  /** Values and keys of labels are cached for each base and delta. */
  labelCacheBytes: upTo(32 * 2 ** 20),
  /** Connections keep prepared statements. */
  maxKeptStatements: { usual: 32, off: 0, forced: 1_000 },

  /** A reader loads the saved delta of a log, if it shows so many lines. */
  minSavedLines: from(0),
  /** JavaScript decodes the changes of a log, instead of DuckDB: up to so many lines and bytes. */
  maxLinesOneByOne: upTo(2_000),
  maxBytesOneByOne: upTo(2 ** 19),
  /** An index in memory has the keys of so many customers, instead of a statement for each batch. */
  maxIndexedCustomers: upTo(2_000_000),
  /** So many values of a condition are constants, instead of one list. */
  maxConstants: upTo(500),

  /** Exports join labels of so many bytes, instead of looking them up for each row. */
  maxJoinedLabelBytes: upTo(16 * 2 ** 20),
  /** Exports join the ids of so many customers, instead of encoding the id of each row. */
  maxJoinedCustomers: upTo(1_000_000),
} as const satisfies Readonly<Record<string, Threshold>>;

/** The threshold of each shortcut. */
export type Shortcuts = { readonly [Name in keyof typeof shortcutSettings]: number };

/** The thresholds of production. */
export const defaultShortcuts = Object.fromEntries(
  Object.entries(shortcutSettings).map(([name, { usual }]) => [name, usual]),
) as Shortcuts;
