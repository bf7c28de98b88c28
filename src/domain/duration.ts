const millisecondsOf = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses a time such as `90s`, `30m`, `6h` or `1d` as milliseconds; null if it is invalid. */
export function parseDuration(text: string): number | null {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const milliseconds = Number(count) * millisecondsOf[unit as keyof typeof millisecondsOf];
  return milliseconds > 0 ? milliseconds : null;
}

/** Such as `59.3 s`, `30 min`, `6 h` or `12 d`. */
export function formatDuration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds * 10) / 10} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.round(seconds / 3_600)} h`
    : `${Math.round(seconds / 86_400)} d`;
}
