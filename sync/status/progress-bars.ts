import { Writable } from 'node:stream';
import { MultiBar, Presets, type SingleBar } from 'cli-progress';
import { encodeId } from '../../src/domain/public-id.ts';
import { estimateProgress, type OrganizationReport } from './worker-state.ts';

type ProgressBars = {
  /** Shows, updates or removes the bar of an organization. */
  readonly show: (organizationId: bigint, report: OrganizationReport) => void;
  /** The destination of log lines, which writes them above the bars. */
  readonly logDestination: Writable;
  stop(): void;
};

/** Draws a bar for each load on standard error; null if standard error is not a terminal. */
export function createProgressBars(): ProgressBars | null {
  if (!process.stderr.isTTY) return null;
  /** Null without bars, because a MultiBar redraws ten times a second. */
  let multiBar: MultiBar | null = null;
  const bars = new Map<bigint, SingleBar>();
  const stop = () => {
    multiBar?.stop();
    multiBar = null;
  };
  return {
    show(organizationId, { state, progress }) {
      const bar = bars.get(organizationId);
      if (progress === null) {
        if (bar !== undefined) multiBar?.remove(bar);
        bars.delete(organizationId);
        if (bars.size === 0) stop();
        return;
      }
      const { loaded, expected, rowsPerSecond } = progress;
      const { secondsLeft } = estimateProgress(progress);
      const payload = {
        organization: encodeId('organization', organizationId),
        state,
        rate: rowsPerSecond.toLocaleString('en'),
        left: secondsLeft === null ? 'starting' : `${secondsLeft} s left`,
      };
      const total = Math.max(expected, loaded);
      if (bar === undefined) {
        multiBar ??= createMultiBar();
        bars.set(organizationId, multiBar.create(total, loaded, payload));
      } else {
        bar.setTotal(total);
        bar.update(loaded, payload);
      }
    },
    logDestination: new Writable({
      write(text, _encoding, done) {
        if (multiBar === null) process.stderr.write(text);
        else multiBar.log(String(text));
        done();
      },
    }),
    stop,
  };
}

const createMultiBar = (): MultiBar =>
  new MultiBar(
    {
      format: '{organization} {state} {bar} {percentage} % | {value}/{total} | {rate}/s | {left}',
      clearOnComplete: true,
      hideCursor: true,
    },
    Presets.shades_classic,
  );
