import { formatDuration } from '../domain/duration.ts';

const barWidth = 24;

/** Shows on standard error how much of a whole is done: a bar on a terminal, or ten lines. */
export function createProgress(unit: string, total: number) {
  const startedAt = performance.now();
  let tenths = 0;
  let done = 0;
  const line = () => {
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const rate = Math.round(done / Math.max(0.001, (performance.now() - startedAt) / 1000));
    const left = rate === 0 ? '' : `, ${formatDuration(Math.max(0, total - done) / rate)} left`;
    const count = `${done.toLocaleString('en')} of ${total.toLocaleString('en')} ${unit}`;
    return { share, text: `${count}, ${rate.toLocaleString('en')} ${unit}/s${left}` };
  };
  return {
    update(now: number): void {
      done = now;
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
      if (process.stderr.isTTY && done > 0) process.stderr.write('\n');
    },
    done: (): number => done,
  };
}
