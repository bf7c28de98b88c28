import { formatDuration } from '../domain/duration.ts';

const barWidth = 24;

/** Shows on standard error how many of the rows are compared: a bar on a terminal, or ten lines. */
export function createProgress(total: number) {
  const startedAt = performance.now();
  let tenths = 0;
  let rows = 0;
  const line = () => {
    const share = total === 0 ? 1 : Math.min(1, rows / total);
    const rate = Math.round(rows / Math.max(0.001, (performance.now() - startedAt) / 1000));
    const left = rate === 0 ? '' : `, ${formatDuration(Math.max(0, total - rows) / rate)} left`;
    const count = `${rows.toLocaleString('en')} of ${total.toLocaleString('en')} rows`;
    return { share, text: `${count}, ${rate.toLocaleString('en')} rows/s${left}` };
  };
  return {
    update(done: number): void {
      rows = done;
      const { share, text } = line();
      if (process.stderr.isTTY) {
        const filled = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.');
        process.stderr.write(`\r\u001b[K[${filled}] ${text}`);
      } else if (Math.floor(share * 10) > tenths) {
        tenths = Math.floor(share * 10);
        console.error(text);
      }
    },
    /** Ends the line of the bar. */
    end(): void {
      if (process.stderr.isTTY && rows > 0) process.stderr.write('\n');
    },
    rows: (): number => rows,
  };
}
