import type { Report } from '../api/responses.ts';
import { type Part, useDashboard } from '../dashboard/dashboard-state.ts';
import type { Totals } from '../dashboard/load.ts';
import { isEnded } from '../dashboard/parts.ts';
import { formatChange, formatDays } from '../display/format.ts';
import { areSales, formatMeasure, isMissing, measureLabel } from '../display/measures.ts';
import { texts } from '../language/language.ts';
import { spanOf } from '../view/period.ts';
import { isMoney, type MeasureName, measureNames } from '../view/view-state.ts';
import { changeBetween, directionOf } from './change.ts';

/** The totals as buttons, which choose the measure of the chart. */
export function TotalsCards() {
  const { parts, view } = useDashboard();
  const part = parts.totals;
  return (
    <>
      {part && !areSales(part.view.state) && (
        <p class="hint" id="not-sales">
          {texts.totals.notSales}
        </p>
      )}
      <section
        class="cards"
        id="totals"
        aria-label={texts.totals.title}
        aria-busy={!isEnded(part, view)}
      >
        {part?.value && <Cards part={part} totals={part.value} />}
      </section>
    </>
  );
}

function Cards({ part, totals }: { readonly part: Part<Totals>; readonly totals: Totals }) {
  const { change } = useDashboard();
  return measureNames.map((measure) => (
    <button
      key={measure}
      type="button"
      class="card"
      data-measure={measure}
      aria-pressed={measure === part.view.state.measure}
      onClick={() => change({ measure })}
    >
      <span class="card-label">{measureLabel(measure, part.view.state)}</span>
      <Value lines={amountsOf(measure, totals)} />
      <Change measure={measure} report={totals.report} />
    </button>
  ));
}

/** Long amounts are in a smaller font (dashboard.css). */
function Value({ lines }: { readonly lines: readonly string[] }) {
  const length = Math.max(...lines.map(({ length }) => length));
  return (
    <span class="card-value" style={{ '--length': String(length) }}>
      {lines.length === 1
        ? lines
        : lines.map((line) => (
            <span key={line} class="line">
              {line}
            </span>
          ))}
    </span>
  );
}

const currenciesShown = 3;

/** Amounts of several currencies stay apart: their sum would mean nothing. */
function amountsOf(measure: MeasureName, { report, currencies }: Totals): readonly string[] {
  if (currencies === null || !isMoney(measure)) {
    return [formatMeasure(measure, report.totals, report.currency)];
  }
  const { rows } = currencies;
  const shown = rows
    .slice(0, currenciesShown)
    .map((row) => formatMeasure(measure, row, row.currency as string | null));
  const more = rows.length - shown.length;
  return more > 0 ? [...shown, texts.totals.more(more)] : shown;
}

type ChangeProperties = { readonly measure: MeasureName; readonly report: Report };

function Change({ measure, report }: ChangeProperties) {
  const { totals } = report;
  const { compared } = totals;
  const span = spanOf(report.compared_period, report.timezone);
  if (compared === undefined || span === null) return <span class="card-change" />;
  if (isMoney(measure) && report.mixed_currencies) {
    return <span class="card-change">{texts.totals.severalCurrencies}</span>;
  }
  if (isMissing(measure, totals) || isMissing(measure, compared)) {
    return <span class="card-change">–</span>;
  }
  const [now, before] = [BigInt(totals[measure]), BigInt(compared[measure])];
  const change = changeBetween(now, before);
  if (change === null) {
    return (
      <span class="card-change">
        {now === 0n ? texts.totals.asBefore : texts.totals.noneBefore}
      </span>
    );
  }
  const during = texts.totals.during(formatDays(span.days));
  return (
    <>
      <span class={`card-change ${directionOf(change)}`}>{formatChange(change)}</span>
      {/* The heading has the days, for those who see it. */}
      <span class="card-before muted" title={during}>
        {texts.totals.before(formatMeasure(measure, compared, report.currency))}
        <span class="visually-hidden"> {during}</span>
      </span>
    </>
  );
}
