/** The maximum number of periods of a report, of a time series with groups, and of one without. */
export const maxPeriods = 1_000;
export const maxPeriodsWithoutGroups = 10_000;
/** The maximum that `interval=auto` chooses. */
export const maxAutoPeriods = 300;
