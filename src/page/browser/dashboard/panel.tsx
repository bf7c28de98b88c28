import type { ComponentChildren } from 'preact';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { type CsvTable, csvOf } from '../display/csv.ts';
import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';
import { offer } from './download.ts';
import type { DashboardData, PartName, View } from './load.ts';
import { isEnded, type Part } from './parts.ts';

type PanelProperties<Name extends PartName> = {
  /** The part that the panel shows. */
  readonly name: Name;
  /** The id of the content. */
  readonly id: string;
  readonly title: string;
  readonly controls?: ComponentChildren;
  readonly hint?: string;
  /** What the panel shows, for a spreadsheet: of the same instant, without a request. */
  table(value: DashboardData[Name], view: View): CsvTable;
  children(value: DashboardData[Name], view: View): ComponentChildren;
};

/** A part of the dashboard with its controls, its problem, and a button that saves what it shows. */
export function Panel<Name extends PartName>(properties: PanelProperties<Name>) {
  const { name, id, title, controls, hint, table, children } = properties;
  const { parts, view, problems } = useDashboard();
  const part = parts[name] as Part<DashboardData[Name]> | undefined;
  const value = part?.value ?? null;
  const isInapplicable = part?.value === null && part.problem === null;
  const titleId = `${name}-title`;
  return (
    <section class="panel" aria-labelledby={titleId} aria-busy={!isEnded(part, view)}>
      <div class={`panel-head ${name}-head`}>
        <h2 id={titleId} tabIndex={-1}>
          {title}
        </h2>
        {controls}
        {part && value !== null && (
          <button
            type="button"
            class="quiet"
            id={`download-${name}`}
            data-download={name}
            aria-labelledby={`download-${name} ${titleId}`}
            onClick={() => offer(new Blob([csvOf(table(value, part.view))]), `${title}.csv`)}
          >
            CSV
          </button>
        )}
      </div>
      <Problem text={problemAt(name, problems)} />
      {hint && !isInapplicable && <p class="hint">{hint}</p>}
      <div id={id} data-focus-next={`#${titleId}`}>
        {isInapplicable && <p class="empty">{texts.filters.inapplicable}</p>}
        {part?.problem && value === null && <NotLoaded />}
        {part && value !== null && children(value, part.view)}
      </div>
    </section>
  );
}

/** Instead of a part of the dashboard whose request failed. */
export const NotLoaded = () => <p class="empty">{texts.problems.notLoaded}</p>;
