import { Writable } from 'node:stream';
import { MultiBar, Presets, type SingleBar } from 'cli-progress';
import { encodeId } from '../../src/domain/public-id.ts';
import type { OrganizationReport } from './report.ts';

export type ProgressBars = {
  /** Shows, moves or removes the bar of an organization. */
  readonly show: (organizationId: bigint, report: OrganizationReport) => void;
  /** Where log lines must go, so that they do not tear the bars. */
  readonly logDestination: Writable;
  stop(): void;
};

/** A bar on standard error for each organization that is being loaded; null where that is no terminal. */
export function createProgressBars(): ProgressBars | null {
  if (!process.stderr.isTTY) return null;
  /** Null while there is no bar: it redraws ten times a second. */
  let multiBar: MultiBar | null = null;
  const bars = new Map<bigint, SingleBar>();
  const stop = () => {
    multiBar?.stop();
    multiBar = null;
  };
  return {
    show(organizationId, { activity, progress }) {
      const bar = bars.get(organizationId);
      if (progress === null) {
        if (bar !== undefined) multiBar?.remove(bar);
        bars.delete(organizationId);
        if (bars.size === 0) stop();
        return;
      }
      const { loaded, expected, rowsPerSecond } = progress;
      const secondsLeft = Math.ceil(Math.max(0, expected - loaded) / Math.max(1, rowsPerSecond));
      const payload = {
        organization: encodeId('organization', organizationId),
        activity,
        rate: rowsPerSecond.toLocaleString('en'),
        left: rowsPerSecond === 0 ? 'starting' : `${secondsLeft} s left`,
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
      format:
        '{organization} {activity} {bar} {percentage} % | {value}/{total} | {rate}/s | {left}',
      clearOnComplete: true,
      hideCursor: true,
    },
    Presets.shades_classic,
  );
