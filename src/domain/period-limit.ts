/** The maximum number of periods of a time series. */
export const maxPeriods = 1_000;
